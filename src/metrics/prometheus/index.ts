import { checkedSeries, type Collection, INSTRUMENTS, type MetricsOptions } from '../instruments.ts'
import { Recorder } from '../recorder.ts'
import { durationMetric, metricOf } from './metric.ts'

export type { Collection, MetricsOptions }

/** The part of a `Registry` of prom-client that is used. */
export interface MetricsRegistry {
  /** Adds a metric. */
  registerMetric(metric: object): void
  /** Removes a metric by its name. */
  removeSingleMetric(name: string): void
}

/**
 * Adds the metrics of all limiters of the process to a registry of prom-client. They are counted from now on, and read when the
 * registry is scraped. Keys of clients are never labels.
 *
 * Throws `INVALID_OPTION` and `UNKNOWN_OPTION`, and the error of the registry if it has metrics with these names.
 * @example
 * import { register } from 'prom-client'
 * import { collect } from 'sluice/prometheus'
 *
 * collect(register)
 */
export function collect(registry: MetricsRegistry, options: MetricsOptions = {}): Collection {
  const recorder = new Recorder(checkedSeries('collect', options, 1000))
  const metrics = [...INSTRUMENTS.map((instrument) => metricOf(instrument, recorder)), durationMetric(recorder)]
  const names = metrics.map(({ name }) => name)
  const registered: string[] = []
  function close(): void {
    recorder.close()
    for (const name of registered.splice(0)) registry.removeSingleMetric(name)
  }
  try {
    for (const [i, metric] of metrics.entries()) {
      registry.registerMetric(metric)
      registered.push(names[i]!)
    }
  } catch (error) {
    close()
    throw error
  }
  return { close }
}
