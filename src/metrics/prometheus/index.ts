import {
  checkedSeries,
  type Collection,
  DURATION_HELP,
  type Instrument,
  INSTRUMENTS,
  type MetricsOptions,
  WAIT_HELP,
} from '../instruments.ts'
import type { RegistryMetric, Value } from './text.ts'
import { refuse } from '../../util/validate.ts'
import { BOUNDS, type Durations, type Labels, type LimiterCounts, Recorder } from '../recorder.ts'

export type { Collection, MetricsOptions }

/** The part of a `Registry` of prom-client that is used. */
export interface MetricsRegistry {
  /** Adds a metric. */
  registerMetric(metric: object): void
  /** Removes a metric by its name. */
  removeSingleMetric(name: string): void
}

/**
 * Adds the metrics of all limiters of the process to a registry of prom-client. Counting starts with this call. The counts are read when
 * the registry is scraped. Keys of clients are never labels.
 *
 * Throws `INVALID_OPTION` and `UNKNOWN_OPTION`, and the error of the registry if it has metrics with these names.
 * @example
 * import { register } from 'prom-client'
 * import { collect } from 'sluice/prometheus'
 *
 * collect(register)
 */
export function collect(registry: MetricsRegistry, options: MetricsOptions = {}): Collection {
  if (typeof (registry as Partial<MetricsRegistry> | null | undefined)?.registerMetric !== 'function')
    refuse('collect', 'a registry of prom-client, such as collect(register)', registry)
  const recorder = new Recorder(checkedSeries('collect', options, 1000))
  const metrics = [
    ...INSTRUMENTS.map((instrument) => metricOf(instrument, recorder)),
    histogramOf('sluice_decision_duration_seconds', DURATION_HELP, recorder, ({ durations }) => durations),
    // Most limiters have no queue. So only limiters with requests that have waited show this histogram.
    histogramOf('sluice_wait_duration_seconds', WAIT_HELP, recorder, ({ waits }) =>
      waits.count > 0 ? waits : undefined,
    ),
  ]
  const registered: string[] = []
  function close(): void {
    recorder.close()
    for (const name of registered.splice(0)) registry.removeSingleMetric(name)
  }
  try {
    for (const metric of metrics) {
      const { name } = metric
      registry.registerMetric(metric)
      registered.push(name)
    }
  } catch (error) {
    close()
    throw error
  }
  return { close }
}

function metricOf(instrument: Instrument, recorder: Recorder): RegistryMetric {
  const { name, kind, help } = instrument
  const isTotal = kind === 'total'
  return metric(
    {
      name: `sluice_${name}${isTotal ? '_total' : ''}`,
      help,
      type: isTotal ? 'counter' : 'gauge',
      aggregator: isTotal ? 'sum' : kind,
    },
    () => instrument.samples(recorder),
    recorder,
  )
}

function histogramOf(
  name: string,
  help: string,
  recorder: Recorder,
  durationsOf: (counts: LimiterCounts) => Durations | undefined,
): RegistryMetric {
  return metric(
    { name, help, type: 'histogram', aggregator: 'sum' },
    () =>
      recorder.limiters().flatMap((counts) => {
        const durations = durationsOf(counts)
        return durations === undefined ? [] : histogram(name, counts.limiter, durations)
      }),
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

/** Returns the values of a histogram. Buckets of Prometheus are cumulative. */
function histogram(name: string, limiter: string, durations: Durations): Value[] {
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
