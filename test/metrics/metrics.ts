import { Registry } from 'prom-client'
import { collect, type MetricsOptions } from '../../src/metrics/prometheus/index.ts'
import { afterTest } from '../support/after-test.ts'

/** Returns a registry with the metrics of all limiters, until the test ends. */
export function collected(options?: MetricsOptions): Registry {
  const registry = new Registry()
  const { close } = collect(registry, options)
  afterTest(close)
  return registry
}

/** Returns the lines of a scrape that begin with a text. */
export async function lines(registry: Registry, begin: string): Promise<string[]> {
  const text = await registry.metrics()
  return text.split('\n').filter((line) => line.startsWith(begin))
}
