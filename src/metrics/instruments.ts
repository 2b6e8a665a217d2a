import { knownOptions, wholeNumber } from '../util/validate.ts'
import { OUTCOMES } from '../limiter/decision.ts'
import { slotsLost } from '../limiter/lost-slots.ts'
import { type SlotCount, slotsHeld } from '../limiter/slots.ts'
import { waitingRequests } from '../limiter/waiting.ts'
import { leaseCounts, tripCounts } from '../stores/lease-counts.ts'
import type { Counts, Labels, LimiterCounts, Recorder } from './recorder.ts'

/** Options of `collect` and `instrument`. */
export interface MetricsOptions {
  /**
   * The largest number of pairs of limiter and limit with their own series, from 1. A limiter as a whole counts as one pair. All other pairs
   * count together as `other`. Default 1,000 for Prometheus and 490 for OpenTelemetry, whose SDK keeps 2,000 series for each instrument: up to four for
   * each pair.
   */
  readonly maxSeries?: number
}

/** Metrics that are being collected. */
export interface Collection {
  /** Stops counting, and removes the metrics. */
  close(): void
}

export function checkedSeries(owner: string, options: MetricsOptions, most: number): number {
  const { maxSeries = most } = knownOptions(owner, options, ['maxSeries'])
  return wholeNumber('maxSeries', maxSeries)
}

interface Sample {
  readonly labels: Labels
  readonly value: number
}

/** A metric that Prometheus and OpenTelemetry both show, each under its own name. Histograms are not in this list. */
export interface Instrument {
  /** The name without a prefix, as OpenTelemetry writes it. */
  readonly name: string
  /** `total` only grows. For the other kinds, how the values of several processes become one: added up, the smallest or the largest. */
  readonly kind: 'total' | 'sum' | 'min' | 'max'
  readonly unit: string
  readonly help: string
  samples(recorder: Recorder): Sample[]
}

export const INSTRUMENTS: readonly Instrument[] = [
  {
    name: 'requests',
    kind: 'total',
    unit: '{request}',
    help: 'Requests, by limiter and outcome. Each decision of a limiter counts once.',
    samples: (recorder) => recorder.limiters().flatMap(samplesOfOutcomes),
  },
  {
    name: 'decisions',
    kind: 'total',
    unit: '{request}',
    help: 'Verdicts of limits, by limiter, limit and outcome. A request counts once for each limit.',
    samples: (recorder) => recorder.limits().flatMap(samplesOfOutcomes),
  },
  {
    name: 'near_limit',
    kind: 'total',
    unit: '{request}',
    help: 'Admitted requests that left less than a fifth of a limit.',
    samples: (recorder) => recorder.limits().map(({ labels, nearLimit }) => ({ labels, value: nearLimit })),
  },
  {
    name: 'degraded',
    kind: 'total',
    unit: '{request}',
    help: 'Decisions without the store, by how they were made.',
    samples: (recorder) => recorder.limiters().flatMap((each) => samplesBy('mode', each, each.degraded)),
  },
  {
    name: 'held_requests',
    kind: 'sum',
    unit: '{request}',
    help: 'Requests that wait now, for a delay or in wait().',
    samples: (recorder) => {
      const none = recorder.limiters().map(({ limiter }) => ({ limiter, count: 0 }))
      return samplesOf(recorder, [
        ...none,
        ...Array.from(waitingRequests(), ([limiter, count]) => ({ limiter, count })),
      ])
    },
  },
  {
    name: 'slots_used',
    kind: 'sum',
    unit: '{slot}',
    help: 'Slots of limits by concurrent that requests of this process hold now.',
    samples: (recorder) => samplesOfSlots(recorder, slotsHeld()),
  },
  {
    name: 'slots_lost',
    kind: 'total',
    unit: '{slot}',
    help: 'Slots of limits by concurrent that requests of this process have lost while they ran.',
    samples: (recorder) => samplesOfSlots(recorder, slotsLost()),
  },
  {
    name: 'lease_units',
    kind: 'total',
    unit: '{unit}',
    help: 'Units of leases, by what became of them: leased from the store, used by requests, refunded by requests, returned to the store.',
    samples: (recorder) =>
      [...recorder.sums(leaseCounts())].flatMap(([counts, states]) => samplesBy('state', counts, states)),
  },
  {
    name: 'store_trips',
    kind: 'total',
    unit: '{request}',
    help: 'Requests to a store with leases, by what they are for: a decision, a lease, or the return of unused units.',
    samples: (recorder) => {
      const trips = tripCounts().map(({ limiter, decisions: decision, leases: lease, returns }) => {
        return { limiter, decision, lease, return: returns }
      })
      return [...recorder.sums(trips)].flatMap(([counts, sums]) => samplesBy('purpose', counts, sums))
    },
  },
  {
    name: 'keys',
    kind: 'sum',
    unit: '{key}',
    help: 'Keys that the memory stores of this process remember.',
    samples: (recorder) => samplesOf(recorder, recorder.keys()),
  },
  {
    name: 'store_up',
    kind: 'min',
    unit: '1',
    help: '1 while every guarded store decides, 0 while one of them, or one server of a cluster, is slow or away.',
    samples: (recorder) => [{ labels: {}, value: recorder.storeState === 'healthy' ? 1 : 0 }],
  },
  {
    name: 'store_state',
    kind: 'max',
    unit: '1',
    help: '1 for the worst state of all guarded stores, 0 for the others.',
    samples: (recorder) =>
      (['healthy', 'slow', 'away'] as const).map((state) => ({
        labels: { state },
        value: recorder.storeState === state ? 1 : 0,
      })),
  },
]

export const WAIT_HELP = 'Time that requests waited for their turn, in wait() or in a queue. Others are not counted.'

export const DURATION_HELP = 'Time until a decision. It is 0 for a store that answers at once.'

function samplesOf(
  recorder: Recorder,
  counts: readonly { limiter: string; limit?: string; count: number }[],
): Sample[] {
  return Array.from(recorder.sums(counts), ([{ labels }, { count }]) => ({ labels, value: count! }))
}

/** Returns a sample for each limit with slots, also for those that count none. */
function samplesOfSlots(recorder: Recorder, counts: readonly SlotCount[]): Sample[] {
  return samplesOf(recorder, [
    ...Array.from(recorder.ofSlots, ({ limiter, limit }) => ({ limiter, limit, count: 0 })),
    ...counts,
  ])
}

/** Returns a sample for each value. The name of the value is an additional label. */
function samplesBy(
  label: string,
  { labels }: Counts | LimiterCounts,
  values: Readonly<Record<string, number>>,
): Sample[] {
  return Object.entries(values).map(([name, value]) => ({ labels: { ...labels, [label]: name }, value }))
}

function samplesOfOutcomes({ labels, outcomes }: Counts | LimiterCounts): Sample[] {
  return OUTCOMES.map((outcome, i) => ({ labels: { ...labels, outcome }, value: outcomes[i]! }))
}
