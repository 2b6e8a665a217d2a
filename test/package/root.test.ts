// The root has what users of limits need. What authors need is in `sluice/extend` and `sluice/adapter`.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import * as extend from '../../src/extend.ts'
import * as sluice from '../../src/index.ts'
import { root } from '../support/programs.ts'

/** Why a user of limits needs each name of the root. */
const REASONS: Readonly<Record<string, string>> = {
  // Limits.
  gcra: 'makes a limit',
  tokenBucket: 'makes a limit',
  leakyBucket: 'makes a limit',
  fixedWindow: 'makes a limit',
  slidingWindowLog: 'makes a limit',
  slidingWindowCounter: 'makes a limit',
  slidingWindowBuckets: 'makes a limit',
  quotaLinear: 'makes a limit',
  exponential: 'makes a limit',
  concurrent: 'makes a limit of requests that run at the same time',
  spacing: 'makes a limit of one request in each gap',
  perSecond: 'is the shortest limit',
  perMinute: 'is the shortest limit',
  perHour: 'is the shortest limit',
  perDay: 'is the shortest limit',
  limit: 'makes a limit of data',
  unlimited: 'exempts an input in a function of limits',
  Limit: 'is what these functions return',
  LimitInput: 'is what `limit` takes',
  BlockOptions: 'is the option `block` of a limit',
  QuotaOptions: 'is what several of these functions take',
  GcraOptions: 'is what `gcra` takes',
  TokenBucketOptions: 'is what `tokenBucket` takes',
  LeakyBucketOptions: 'is what `leakyBucket` takes',
  FixedWindowOptions: 'is what `fixedWindow` takes',
  SlidingWindowBucketsOptions: 'is what `slidingWindowBuckets` takes',
  ConcurrentOptions: 'is what `concurrent` takes',
  CommonOptions: 'is what `perMinute` takes after the quota',
  Duration: 'is the type of a window in a program’s own settings',
  // Limiters.
  createLimiter: 'makes a limiter',
  stack: 'makes one limiter of several',
  everyone: 'is a keyer',
  keyers: 'makes one keyer of several',
  Limiter: 'is what a program passes on to its own functions',
  OnSlotLost: 'is the option `onSlotLost` of a limiter',
  LostSlots: 'is what `onSlotLost` receives',
  KeyedLimiter: 'is what `limiter.key` returns',
  LimiterOptions: 'is what a function around `createLimiter` takes',
  SyncLimiterOptions: 'is what a function around `createLimiter` takes that decides at once',
  RulesLimiterOptions: 'is what a function around `createLimiter` with rules takes',
  StackOptions: 'is what a function around `stack` takes',
  SyncStackOptions: 'is what a function around `stack` takes that decides at once',
  StackedLimiter: 'is one limiter in the options of `stack`',
  SyncStackedLimiter: 'is one limiter in the options of `stack` that decides at once',
  RulesInput: 'is the input of a limiter with rules',
  Key: 'is what a keyer returns',
  Keyer: 'is the type of a program’s own keyer',
  SyncKeyer: 'is the type of a program’s own keyer that returns at once',
  Limits: 'is the type of the option `limits`',
  SyncLimits: 'is the type of the option `limits` that answers at once',
  LimitFunc: 'is the type of a program’s own function of limits',
  SyncLimitFunc: 'is the type of a program’s own function of limits that returns at once',
  CostFunc: 'is the type of a program’s own function of costs',
  SyncCostFunc: 'is the type of a program’s own function of costs that returns at once',
  MaybePromise: 'is what these functions return',
  ConsumeOptions: 'is what `consume` takes',
  WaitOptions: 'is what `wait` takes',
  Penalty: 'is what `penalize` takes',
  // Decisions.
  Decision: 'is what `consume` returns',
  LimitStatus: 'is one limit of a decision',
  Degraded: 'is how a decision was made in an outage, and what `onOutage` takes',
  DecisionEvent: 'is what a listener of decisions receives',
  ThresholdEvent: 'is what a listener of thresholds receives',
  SluiceError: 'is thrown',
  SluiceErrorCode: 'says what is wrong',
  // Stores.
  memoryStore: 'is the default store',
  guard: 'wraps a store that can fail',
  denyCache: 'wraps a store that is far away',
  lease: 'wraps a store that is asked often',
  Store: 'is the type of a store that a program passes on',
  SyncStore: 'is the type of a store that decides at once',
  AsyncStore: 'is the type of a store that decides later',
  MemoryStoreOptions: 'is what `memoryStore` takes',
  FullTable: 'is what `onFull` receives',
  GuardOptions: 'is what `guard` takes',
  DeadlineRange: 'is the deadline of a guard',
  StoreChange: 'is what `onChange` receives',
  StoreEvent: 'is what a listener of guards receives',
  StoreState: 'is the state of a guarded store',
  DenyCacheOptions: 'is what `denyCache` takes',
  LeaseOptions: 'is what `lease` takes, and the option `lease`',
  Clock: 'is the option `clock`',
  // Reports.
  topDenied: 'lists the keys that are denied most',
  TopDenied: 'is what `topDenied` returns',
  TopDeniedList: 'is the list of `topDenied`',
  TopDeniedOptions: 'is what `topDenied` takes',
  DeniedKey: 'is one key of that list',
}

/** Returns the names of an entry point in the reference, which lists the names of the build. */
function listed(entry: string): string[] {
  const page = readFileSync(join(root, 'docs/reference/api.md'), 'utf8')
  const section = page.split(/^### /m).find((each) => each.startsWith(`${entry}\n`))!
  return Array.from(section.matchAll(/`(\w+)`/g), ([, name]) => name!).toSorted()
}

describe('the root', () => {
  it('has a reason for each of its names, and no other', () => {
    expect(listed('sluice')).toEqual(Object.keys(REASONS).toSorted())
  })

  it('has no name of `sluice/extend`', () => {
    const names = new Set(listed('sluice'))
    const both = listed('sluice/extend').filter((name) => names.has(name))
    expect(both).toEqual([])
    expect(Object.keys(extend).filter((name) => name in sluice)).toEqual([])
    expect(listed('sluice/extend')).toEqual(expect.arrayContaining(Object.keys(extend)))
  })

  it('has no value that the pages for users do not show', () => {
    const pages = ['docs/guides', 'docs/concepts', 'docs/reference'].flatMap((folder) =>
      readdirSync(join(root, folder))
        .filter((name) => name.endsWith('.md') && name !== 'api.md')
        .map((name) => readFileSync(join(root, folder, name), 'utf8')),
    )
    const shown = (name: string): boolean => pages.some((page) => new RegExp(`\\b${name}\\b`).test(page))
    expect(Object.keys(sluice).filter((name) => !shown(name))).toEqual([])
  })
})

it('no type of `sluice/extend` hides one of TypeScript', () => {
  const globals = [
    'Parameters',
    'Record',
    'Partial',
    'Required',
    'Readonly',
    'Pick',
    'Omit',
    'Exclude',
    'Extract',
    'Awaited',
  ]
  expect([...listed('sluice'), ...listed('sluice/extend')].filter((name) => globals.includes(name))).toEqual([])
})
