import fc from 'fast-check'
import {
  createLimiter,
  type Limit,
  limit,
  type Limiter,
  type LimitInput,
  SluiceError,
  stack,
  type Store,
} from '../../src/index.ts'
import type { VirtualClock } from '../../src/testing.ts'
import { answersOf, type Input, type Step } from '../../src/testing/store-behaviours.ts'
import { limits, names } from './harness.ts'

// Random limits and requests, to compare two stores.

/** A limit in two configurations under one name: a limit that changes, in its numbers or in its algorithm. */
export type Versions = readonly [Limit, Limit]

export interface Setup {
  /** Limits of two limiters that are stacked; the second may have none. */
  readonly members: readonly (readonly Versions[])[]
}

const growing = fc.record({
  after: fc.integer({ min: 1, max: 3 }),
  for: fc.constantFrom('10ms', '250ms', '3s'),
  factor: fc.constantFrom(1, 1.3, 2, 1000 / 3),
  upTo: fc.constantFrom('3s', '7s', '1m'),
})
const blocks = fc.option(fc.oneof(fc.constantFrom(1, 250, 5000), growing), { nil: undefined })
const flags = fc.record({ strict: fc.boolean(), shadow: fc.boolean(), block: blocks })

/** Small quotas and windows, so that edges are met often. */
const quota = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 1, max: 9 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 200 }) },
  { weight: 1, arbitrary: fc.constant(0) },
)
const window = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(100, 1000, 1001, 7000) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 31_536_000_000 }) },
)

/** Windows on the clock and refills by interval refuse strict. */
function canBeStrict(base: Limit): boolean {
  return base['anchor'] !== 'clock' && base['anchor'] !== 'calendar' && base['refill'] !== 'interval'
}

/** Returns a limit with a name and with flags, as far as it can have them. */
export function written(
  name: string,
  base: Limit,
  { strict, shadow, block }: { strict: boolean; shadow: boolean; block: LimitInput['block'] | undefined },
): Limit {
  const common = {
    name,
    ...(block !== undefined && { block }),
    ...(shadow ? { shadow } : strict && canBeStrict(base) && { strict }),
  }
  return limit({ ...base, strict: false, ...common })
}

function versions(name: string, algorithm: string): fc.Arbitrary<Versions> {
  const one = limits(algorithm, { quota, window })
  const other = fc.oneof(
    { weight: 3, arbitrary: one },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: 20 }) },
    { weight: 1, arbitrary: fc.constantFrom(...names()).chain((any) => limits(any, { quota, window })) },
  )
  return fc
    .tuple(fc.tuple(one, flags), fc.tuple(other, flags))
    .map(([a, [b, own]]) => [written(name, ...a), written(name, typeof b === 'number' ? scaled(a[0], b) : b, own)])
}

/** The same limit with another quota, and with as much of its capacity more or less. */
function scaled(base: Limit, quota: number): Limit {
  if (base.algorithm === 'spacing' || base.quota === 0) return base
  const own = ['burst', 'capacity'].filter((option) => base[option] !== undefined)
  const scaled = own.map((option) => [option, Math.ceil(((base[option] as number) * quota) / base.quota)] as const)
  const options = Object.entries({ ...base, ...Object.fromEntries(scaled), quota })
  try {
    return limit(Object.fromEntries(options.filter(([option]) => option !== 'initial')) as LimitInput)
  } catch (error) {
    // A long window that has no common divisor with the other quota cannot be counted exactly.
    if (error instanceof SluiceError && error.code === 'OUT_OF_RANGE') return base
    throw error
  }
}

/** Limits of which the first is under this algorithm. */
export function setups(algorithm: string): fc.Arbitrary<Setup> {
  const any = fc.constantFrom(...names())
  const second = any.chain((name) => versions('two', name))
  const first = fc.tuple(versions('one', algorithm), fc.option(second, { nil: undefined }))
  const other = fc.option(
    any.chain((name) => versions('three', name)),
    { nil: undefined },
  )
  return fc.tuple(first, other).map(([[one, two], three]) => ({
    members: [two === undefined ? [one] : [one, two], three === undefined ? [] : [three]],
  }))
}

const passing = fc.oneof(
  { weight: 5, arbitrary: fc.constant(0) },
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 2_000_000 }).map((micros) => micros / 1000) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 40_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: -900_000, max: 0 }).map((micros) => micros / 1000) },
)

const stepsOf = (version: fc.Arbitrary<0 | 1>): fc.Arbitrary<Step> =>
  fc.record({
    kind: fc.oneof(
      { weight: 12, arbitrary: fc.constant('consume' as const) },
      { weight: 2, arbitrary: fc.constantFrom('peek', 'refund', 'settle', 'release', 'renew') },
      { weight: 1, arbitrary: fc.constantFrom('reset', 'block', 'pause', 'penalize') },
    ) as fc.Arbitrary<Step['kind']>,
    after: passing,
    key: fc.constantFrom('a', 'a', 'a', 'b', '\ud800"'),
    version,
    cost: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, { weight: 2, arbitrary: fc.nat({ max: 12 }) }),
    which: fc.nat({ max: 6 }),
    lasting: fc.constantFrom<Step['lasting']>(0, '1ms', '250ms', '3s', '1m'),
  })

const STEPS = 40
/** Traces in which a limit changes now and then, and others in which it alternates. */
export const traces: fc.Arbitrary<readonly Step[]> = fc
  .constantFrom(6, 1)
  .chain((weight) =>
    fc.array(
      stepsOf(
        fc.oneof({ weight, arbitrary: fc.constant(0 as const) }, { weight: 1, arbitrary: fc.constant(1 as const) }),
      ),
      { minLength: STEPS / 2, maxLength: STEPS },
    ),
  )

/** Makes the limiters of a setup on a store. */
export function limiterOn(store: Store, run: string, { members }: Setup): Limiter<Input> {
  const limiters = members.map((list, i) =>
    createLimiter<Input>({
      name: `${run}.${i}`,
      store,
      keyer: ({ key }) => (i === 0 ? key : 'everyone'),
      limits: list.map(
        (pair) =>
          ({ version }: Input) =>
            pair[version],
      ),
    }),
  )
  return stack(...limiters)
}

/** Runs a trace. Returns what each step came to. */
export function run(limiter: Limiter<Input>, clock: VirtualClock, steps: readonly Step[]): Promise<unknown[]> {
  return answersOf(limiter, clock, steps, () => true)
}
