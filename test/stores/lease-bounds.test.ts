// Several processes with leases on one store, in virtual time: what they use, against what the store has charged and what the documents permit.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Clock,
  exponential,
  gcra,
  leakyBucket,
  type Limit,
  limit,
  memoryStore,
  quotaLinear,
  slidingWindowCounter,
  type Store,
} from '../../src/index.ts'
import { rowStore } from '../../src/extend.ts'
import { names } from '../support/harness.ts'
import { mapRows } from '../support/map-rows.ts'
import {
  EVERYTHING,
  LEASED,
  ORDERED,
  type Step,
  type Trace,
  traces,
  type Versions,
  WHOLE,
} from '../support/leases/traces.ts'
import { type Counts, LeaseWorld } from '../support/leases/world.ts'

const ASK: Step = {
  kind: 'ask',
  process: 0,
  key: 'a',
  cost: 1,
  times: 1,
  after: 0,
  which: 0,
  elsewhere: false,
  part: 0,
}
const RUNS = Number(process.env['SLUICE_LEASES'] ?? 200)
/** Microseconds by which the timers of a busy process ring late. */
const LATE = [0, 0, 0, 1000, 40_000, 700_000]

const plain = ({ name, quota, window }: Limit) => ({ name, quota, window })
const never = (change: (limit: Limit) => object) => (versions: Versions) =>
  versions.map((each) => limit({ ...each, ...change(each) })) as unknown as Versions
/** Makes limits that are never leased. */
const NEVER_LEASED = [
  never(() => ({ exact: true })),
  never(() => ({ block: '20ms' })),
  ([one, two]: Versions): Versions => [gcra({ ...plain(one), strict: true }), gcra({ ...plain(two), strict: true })],
  ([one, two]: Versions): Versions => [leakyBucket(plain(one)), leakyBucket(plain(two))],
  ([one, two]: Versions): Versions => [exponential(plain(one)), quotaLinear(plain(two))],
]

describe('a lease', () => {
  const counts: Counts = { decisions: 0, leased: 0, bounds: 0, returned: 0, reports: 0, waits: 0 }
  const inMemory = (clock: Clock): Store => memoryStore({ clock })
  const run = (trace: Trace, makeStore = inMemory, checksRemaining = false): Promise<void> =>
    Object.assign(new LeaseWorld(trace, counts, makeStore), { checksRemaining }).run()
  const search = (
    any: fc.Arbitrary<Trace>,
    runs: number,
    makeStore = inMemory,
    checksRemaining = false,
  ): Promise<void> =>
    fc.assert(
      fc.asyncProperty(any, (trace) => run(trace, makeStore, checksRemaining)),
      { numRuns: Math.ceil(runs) },
    )

  for (const algorithm of names()) {
    // A quota of one request is too little for a lease.
    const runs = LEASED.includes(algorithm) && algorithm !== 'spacing' ? RUNS : RUNS / 6
    const having = (kinds: typeof WHOLE): fc.Arbitrary<Trace> => traces({ algorithm, kinds, steps: 30, late: LATE })
    it(`of ${algorithm} keeps the bounds in every interval`, () => search(having(WHOLE), (2 * runs) / 3))
    it(`of ${algorithm} uses what was charged, in its time, whatever happens`, () =>
      search(having(EVERYTHING), runs / 2))
  }
  for (const algorithm of LEASED)
    it(`of ${algorithm} reports what remains, and how long to wait`, () => {
      const windows = [1000, 7000, 3_600_000, 3_600_000]
      return search(traces({ algorithm, kinds: ORDERED, steps: 20, window: windows }), RUNS / 2, inMemory, true)
    })
  it.each([
    [
      'units that have come back twice, when this process settles meanwhile',
      { quota: 27, share: 0.1, from: 4, trips: [5000, 20_000] as const },
      [
        { times: 10, after: 20_000 },
        { process: 2, times: 10, after: 20_000 },
        {},
        { kind: 'settle' as const, cost: 2, elsewhere: true },
        {},
      ],
    ],
    [
      'units that this process charges after a request whose answer comes later',
      { quota: 39, share: 0.5, from: 1, trips: [0, 0] as const },
      [
        { times: 25, after: 5000 },
        { process: 1 },
        { after: 100 },
        { kind: 'peek' as const },
        { kind: 'settle' as const, cost: 2, which: 3 },
        {},
        {},
      ],
    ],
  ])('does not report %s', async (_, { quota, ...settings }, steps) => {
    const one = slidingWindowCounter({ quota, window: 1000, name: 'one' })
    const trace: Trace = {
      ...settings,
      keyed: [[one, one]],
      shared: [],
      span: 250,
      given: false,
      fresh: false,
      late: 0,
      steps: steps.map((each) => ({ ...ASK, ...each })),
    }
    await run(trace, inMemory, true)
  })
  it('keeps the bounds over rows of a database', () => {
    const any = fc
      .constantFrom(...LEASED)
      .chain((algorithm) => traces({ algorithm, kinds: EVERYTHING, steps: 30, late: LATE }))
    return search(any, RUNS / 6, (clock) => rowStore(mapRows(clock), { clock }))
  })
  it('was used often in the search', () => {
    expect(counts.leased).toBeGreaterThan(counts.decisions / 20)
    expect(counts.returned).toBeGreaterThan(RUNS / 10)
    expect(counts.reports).toBeGreaterThan(10 * RUNS)
    expect(counts.waits).toBeGreaterThan(RUNS / 3)
  })
  it('is no part of a decision with `for: 0`, or about limits that are never leased', async () => {
    const kinds = WHOLE.filter((kind) => kind !== 'lose')
    const any = fc.constantFrom(...names()).chain((algorithm) => traces({ algorithm, kinds, steps: 20 }))
    const answersOf = async (trace: Trace, isLeased: boolean): Promise<unknown> => {
      const world = new LeaseWorld(trace, counts, inMemory, isLeased)
      world.keepsAnswers = true
      await world.run()
      return world.answers
    }
    await fc.assert(
      fc.asyncProperty(any, fc.nat({ max: NEVER_LEASED.length }), async (trace, which) => {
        const without = NEVER_LEASED[which]
        const same =
          without === undefined ? { ...trace, span: 0 } : { ...trace, keyed: trace.keyed.map((each) => without(each)) }
        expect(await answersOf(same, true)).toEqual(await answersOf(same, false))
      }),
      { numRuns: Math.ceil(RUNS / 3) },
    )
  })
})
