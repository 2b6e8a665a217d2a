import fc from 'fast-check'
import { type Limit, limit } from '../../../src/index.ts'
import { limits, names } from '../harness.ts'
import type { Versions } from '../traces.ts'

export type { Versions }

/** What seldom happens. */
const RARE = [
  'refund',
  'settle',
  'reset',
  'block',
  'penalize',
  'deploy',
  'step',
  'freeze',
  'outage',
  'lose',
  'network',
] as const

type Kind = (typeof RARE)[number] | 'ask' | 'pass' | 'peek' | 'retry'

export interface Step {
  readonly kind: Kind
  readonly process: number
  readonly key: string
  readonly cost: number
  /** How many requests, and the microseconds before each of them. */
  readonly times: number
  readonly after: number
  /** Which of the latest decisions is refunded or settled, and whether another process has its receipt. */
  readonly which: number
  readonly elsewhere: boolean
  /** A part of 1 for what varies: lengths of steps, of outages, of lock-outs. */
  readonly part: number
}

export interface Trace {
  readonly keyed: readonly Versions[]
  /** A limit of another limiter, which all keys share. */
  readonly shared: readonly Versions[]
  /** Milliseconds. */
  readonly span: number
  readonly share: number
  readonly from: number
  /** True: the clock of each process is given. False: a process has a monotonic and a wall clock. */
  readonly given: boolean
  /** True: limits are made anew for each request. */
  readonly fresh: boolean
  /** Microseconds by which timers ring late. */
  readonly late: number
  /** Microseconds on the way there and back, until a step changes them. */
  readonly trips: readonly [number, number]
  readonly steps: readonly Step[]
}

export interface Ranges {
  readonly algorithm: string
  readonly kinds: readonly Kind[]
  readonly steps: number
  readonly window?: readonly number[]
  readonly span?: readonly number[]
  /** Microseconds by which timers ring late. Default: none does. */
  readonly late?: readonly number[]
}

export const EVERYTHING: readonly Kind[] = [
  ...Array.from({ length: 14 }, (): Kind => 'ask'),
  'pass',
  'pass',
  'refund',
  ...RARE,
]

/** What keeps a history whole, so that bounds of intervals apply. */
export const WHOLE: readonly Kind[] = EVERYTHING.filter((kind) => !['reset', 'deploy'].includes(kind))

/** What leaves the order of messages as it is, so that a process knows what remains. */
export const ORDERED: readonly Kind[] = ['ask', 'ask', 'ask', 'ask', 'ask', 'pass', 'refund', 'settle', 'peek', 'retry']

/** The algorithms of which some limits are leased. */
export const LEASED: readonly string[] = names().filter(
  (name) => !['concurrent', 'exponential', 'quotaLinear'].includes(name),
)

function versions(name: string, { algorithm, window }: Ranges): fc.Arbitrary<Versions> {
  const quota = fc.oneof(fc.integer({ min: 5, max: 40 }), fc.integer({ min: 20, max: 400 }))
  const made = (of: string): fc.Arbitrary<Limit> =>
    limits(of, {
      quota,
      window: fc.constantFrom(...(window ?? [100, 1000, 1001, 7000, 3_600_000])),
      strict: false,
    }).chain((base) =>
      fc
        .record({
          shadow: fc.constantFrom(false, false, false, true),
          exact: fc.nat({ max: 19 }).map((each) => each === 19),
          block: fc.nat({ max: 19 }).map((each) => (each === 19 ? 50 : 0)),
        })
        .map(({ shadow, exact, block }) =>
          limit({ ...base, name, ...(shadow && { shadow }), ...(exact && { exact }), ...(block > 0 && { block }) }),
        ),
    )
  const other = fc.oneof(made(algorithm), fc.constantFrom(...names()).chain(made))
  return fc.tuple(made(algorithm), other)
}

export function traces(ranges: Ranges): fc.Arbitrary<Trace> {
  const any = fc
    .constantFrom(...names(), ...LEASED, ...LEASED)
    .chain((algorithm) => versions('two', { ...ranges, algorithm }))
  const step: fc.Arbitrary<Step> = fc.record({
    kind: fc.constantFrom(...ranges.kinds),
    process: fc.constantFrom(0, 0, 0, 1, 1, 2),
    key: fc.constantFrom('a', 'a', 'a', 'a', 'a', 'a', 'a', 'b'),
    cost: fc.constantFrom(1, 1, 1, 1, 1, 2, 3, 0, 50),
    times: fc.constantFrom(1, 3, 10, 25),
    after: fc.constantFrom(0, 1, 100, 1000, 5000, 20_000),
    which: fc.nat(20),
    elsewhere: fc.boolean(),
    part: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  return fc.record({
    keyed: fc.oneof(
      { weight: 7, arbitrary: fc.tuple(versions('one', ranges)) },
      { weight: 1, arbitrary: fc.tuple(versions('one', ranges), any) },
    ),
    shared: fc.oneof({ weight: 7, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.tuple(any) }),
    span: fc.constantFrom(...(ranges.span ?? [1, 20, 250, 250, 250, 2000])),
    share: fc.constantFrom(0.1, 0.5, 1, 1),
    from: fc.constantFrom(1, 2, 4),
    given: fc.boolean(),
    fresh: fc.constantFrom(false, false, false, true),
    late: fc.constantFrom(...(ranges.late ?? [0])),
    trips: fc.constantFrom([0, 0] as const, [0, 0] as const, [400, 600] as const, [5000, 20_000] as const),
    steps: fc.array(step, { minLength: 4, maxLength: ranges.steps, size: 'max' }),
  })
}
