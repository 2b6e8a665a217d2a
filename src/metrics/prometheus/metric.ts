import { BOUNDS, type LimiterCounts, type Recorder } from '../recorder.ts'
import { DURATION_HELP, type Instrument, type Labels } from '../instruments.ts'

/** How prom-client adds up the values of several processes of a cluster. */
type Aggregator = 'sum' | 'min'

interface Value {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  readonly metricName?: string
}

/** A metric as registries of prom-client read it. A registry for OpenMetrics changes the name of a counter. */
export interface RegistryMetric {
  name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly aggregator: Aggregator
  get(): Promise<Pick<RegistryMetric, 'name' | 'help' | 'type' | 'aggregator'> & { readonly values: Value[] }>
  reset(): void
}

export function metricOf(instrument: Instrument, recorder: Recorder): RegistryMetric {
  const { name, kind, help } = instrument
  const isTotal = kind === 'total'
  return metric(
    {
      name: `sluice_${name}${isTotal ? '_total' : ''}`,
      help,
      type: isTotal ? 'counter' : 'gauge',
      aggregator: kind === 'state' ? 'min' : 'sum',
    },
    () => instrument.samples(recorder),
    recorder,
  )
}

export function durationMetric(recorder: Recorder): RegistryMetric {
  const name = 'sluice_decision_duration_seconds'
  return metric(
    { name, help: DURATION_HELP, type: 'histogram', aggregator: 'sum' },
    () => recorder.limiters().flatMap((limiter) => histogram(name, limiter)),
    recorder,
  )
}

function metric(
  description: Pick<RegistryMetric, 'name' | 'help' | 'type' | 'aggregator'>,
  values: () => Value[],
  recorder: Recorder,
): RegistryMetric {
  return {
    ...description,
    async get() {
      const { name, help, type, aggregator } = this
      return { name, help, type, aggregator, values: values() }
    },
    reset: () => recorder.reset(),
  }
}

/** The buckets of Prometheus are cumulative. */
function histogram(name: string, { limiter, durations }: LimiterCounts): Value[] {
  const labels: Labels = { limiter }
  let count = 0
  const buckets = durations.buckets.map((each, i) => {
    count += each
    const le = i < BOUNDS.length ? BOUNDS[i]! / 1000 : '+Inf'
    return { metricName: `${name}_bucket`, labels: { le, limiter }, value: count }
  })
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: durations.sum / 1000 },
    { metricName: `${name}_count`, labels, value: count },
  ]
}
