import type { Arbitrary } from 'fast-check'
import type { Decision } from '../limiter/decision.ts'
import { createLimiter, type Limiter, stack } from '../limiter/limiter.ts'
import {
  exponential,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingWindowLog,
  spacing,
  tokenBucket,
} from '../engine/factories.ts'
import { knownAlgorithms } from '../engine/all-algorithms.ts'
import { type Duration, type Limit, limit } from '../engine/limit.ts'
import type { Store } from '../stores/store.ts'
import { memoryStore } from '../stores/memory/index.ts'
import { type Behaviour, behavioursOf, equal, type SearchOptions } from './behaviour.ts'
import { type VirtualClock, virtualClock } from './virtual-clock.ts'
import {
  adjustCases,
  createWorld,
  keyCases,
  leaseCases,
  lockCases,
  type MakeStore,
  stackCases,
  takeCases,
} from './store/cases.ts'
import { type Fc, search } from './search.ts'

/** The kinds of steps in a trace. Four of ten steps are of the first kind. */
const KINDS = [
  'consume',
  'peek',
  'refund',
  'settle',
  'release',
  'renew',
  'reset',
  'block',
  'pause',
  'penalize',
] as const

export interface Step {
  readonly kind: (typeof KINDS)[number]
  /** The milliseconds before the step. */
  readonly after: number
  readonly key: string
  readonly version: 0 | 1
  readonly cost: number
  /** The number of the earlier decision that is refunded or settled. */
  readonly which: number
  readonly lasting: Duration
}

interface Trace {
  /** The limits of two limiters, each in two versions. */
  readonly limits: readonly [mine: readonly [Limit, Limit], others: readonly [Limit, Limit]]
  readonly steps: readonly Step[]
}

type Make = (name: string, quota: number, window: Duration) => Limit

/** Every algorithm of the package without options, and some with options. This list is made before an application defines its own algorithms. */
const makes: readonly Make[] = [
  ...knownAlgorithms()
    .filter(({ name }) => name !== 'spacing')
    .map(
      ({ name: algorithm }): Make =>
        (name, quota, window) =>
          limit({ algorithm, name, quota, window }),
    ),
  (name, quota, window) => gcra({ name, quota, window, strict: true }),
  (name, quota, window) => tokenBucket({ name, quota, window, refill: 'interval' }),
  (name, quota, window) => leakyBucket({ name, quota, window, capacity: quota + 2 }),
  (name, quota, window) => fixedWindow({ name, quota, window, anchor: 'clock', block: '250ms' }),
  (name, quota) => fixedWindow({ name, quota, window: '1d', anchor: 'calendar', timeZone: 'Asia/Kathmandu' }),
  (name, quota, window) =>
    fixedWindow({ name, quota, window, block: { after: 2, for: '50ms', factor: 2.5, upTo: '1s' } }),
  (name, quota, window) => gcra({ name, quota, window, shadow: true, block: { for: '10ms', factor: 2 } }),
  (name, quota, window) => slidingWindowLog({ name, quota, window, strict: true, block: '10ms' }),
  (name, quota, window) => exponential({ name, quota, window, shadow: true }),
  (name, _quota, window) => spacing(window, { name }),
]

function traces(fc: Fc): Arbitrary<Trace> {
  const versions = (name: string): Arbitrary<readonly [Limit, Limit]> =>
    fc
      .record({
        make: fc.nat(makes.length - 1),
        other: fc.nat(makes.length - 1),
        same: fc.boolean(),
        quota: fc.integer({ min: 1, max: 9 }),
        window: fc.constantFrom<Duration>('100ms', '1s', '7s'),
      })
      .map(({ make, other, same, quota, window }) => [
        makes[make]!(name, quota, window),
        makes[same ? make : other]!(name, quota + 2, window),
      ])
  const step: Arbitrary<Step> = fc.record({
    kind: fc.oneof(
      { weight: 1, arbitrary: fc.constant(KINDS[0]) },
      { weight: 2, arbitrary: fc.constantFrom(...KINDS) },
    ),
    after: fc.oneof(
      { weight: 4, arbitrary: fc.constant(0) },
      { weight: 4, arbitrary: fc.integer({ min: 0, max: 2_000_000 }).map((micros) => micros / 1000) },
      { weight: 1, arbitrary: fc.integer({ min: -900, max: 10_000 }) },
    ),
    key: fc.constantFrom('a', 'a', 'b', '"\ud800'),
    version: fc.constantFrom(0 as const, 0 as const, 0 as const, 1 as const),
    cost: fc.constantFrom(1, 1, 1, 0, 2, 5),
    which: fc.nat(4),
    lasting: fc.constantFrom<Duration>('1ms', '250ms', '3s'),
  })
  return fc.record({ limits: fc.tuple(versions('mine'), versions('others')), steps: fc.array(step, { maxLength: 30 }) })
}

export type Input = Pick<Step, 'key' | 'version'>

/** If all other limits of a key are shadows, a lock-out applies to this limit. */
const WIDE = fixedWindow({ name: 'wide', quota: 1000, window: '7s' })

function limiterOn(store: Store, { limits: [mine, others] }: Trace, stacks: boolean): Limiter<Input> {
  const keyer = ({ key }: Input): string => key
  if (!stacks) {
    const limits = ({ version }: Input): readonly Limit[] => [mine[version], others[version], WIDE]
    return createLimiter<Input>({ name: 'mine', store, keyer, limits })
  }
  return stack(
    createLimiter<Input>({ name: 'mine', store, keyer, limits: ({ version }) => mine[version] }),
    createLimiter<Input>({ name: 'others', store, keyer: () => 'all', limits: ({ version }) => others[version] }),
  )
}

/** Returns the result of every step. Only decisions that pass `canEnd` are refunded, settled, released or renewed. */
export async function answersOf(
  limiter: Limiter<Input>,
  clock: VirtualClock,
  steps: readonly Step[],
  canEnd = ({ allowed }: Decision): boolean => allowed,
): Promise<unknown[]> {
  const decisions: Decision[] = []
  const answers: unknown[] = []
  let newest = clock.now()
  for (const { kind, after, which, cost, lasting, ...input } of steps) {
    // A store may delete expired state after some time, so the clock must not step back further than this time.
    clock.advance(Math.max(after, newest - 900 - clock.now()))
    newest = Math.max(newest, clock.now())
    const earlier = decisions.at(-1 - which)
    if (kind === 'consume' || kind === 'peek') {
      const decision = await limiter[kind](input, { cost })
      if (kind === 'consume') decisions.push(decision)
      answers.push({
        ...decision,
        limits: decision.limits.map((each) => ({ ...each })),
        binding: decision.binding?.limit.name,
      })
    } else if (kind === 'reset') await limiter.reset(input)
    else if (kind === 'penalize') await limiter.penalize(input, cost)
    else if (kind === 'block' || kind === 'pause') await limiter[kind](input, lasting)
    else if (earlier !== undefined && canEnd(earlier)) {
      if (kind === 'refund') await limiter.refund(earlier)
      else if (kind === 'settle') await limiter.settle(earlier, cost)
      else if (kind === 'release') await limiter.release(earlier)
      else answers.push(await limiter.renew(earlier))
    }
  }
  return answers
}

/** Searches for a trace with different decisions of a store and `memoryStore`. */
function compareWithMemory(makeStore: MakeStore, stacks: boolean, options: SearchOptions): Promise<void> {
  return search(options, traces, async (trace) => {
    const clocks = [virtualClock(), virtualClock()] as const
    const store = await makeStore(clocks[0])
    try {
      const answers = await answersOf(limiterOn(store, trace, stacks), clocks[0], trace.steps)
      const memory = limiterOn(memoryStore({ clock: clocks[1] }), trace, stacks)
      equal(answers, await answersOf(memory, clocks[1], trace.steps))
    } finally {
      await store.close()
    }
  })
}

/** Options of `storeBehaviours`. */
export interface StoreSuiteOptions extends SearchOptions {
  /** True if the store decides about several keys in one step. If false, these cases are left out. Default true. */
  readonly stacks?: boolean
}

/**
 * Returns the behaviours that every store must have: `consume`, `peek`, `reset`, `refund`, `settle`, `penalize`, `block` and `pause`, all or
 * nothing, with limits that change and any string as a key. If the store answers later, two processes with `lease` must not use more than it has
 * charged. A random search compares the decisions with `memoryStore`. Only this search needs `fast-check`.
 * @param makeStore makes a new, empty store that uses the given clock. The suite closes it
 *
 * @example
 * import { storeBehaviours } from 'sluice/testing'
 * const makeStore = (clock: Clock) => redisStore(client, { clock, prefix: `test${++runs}:` })
 * for (const { name, run } of storeBehaviours(makeStore)) test(name, run)
 */
export function storeBehaviours(makeStore: MakeStore, options: StoreSuiteOptions = {}): readonly Behaviour[] {
  const { stacks = true } = options
  const groups = {
    'the store': takeCases,
    ...(stacks && { 'a stack': stackCases }),
    'an adjustment': adjustCases,
    'a lock-out': lockCases,
    keys: keyCases,
    leases: leaseCases,
  }
  const comparison = {
    name: 'the store decides the same as memoryStore',
    run: () => compareWithMemory(makeStore, stacks, options),
  }
  return [...behavioursOf(groups, () => createWorld(makeStore)), comparison]
}
