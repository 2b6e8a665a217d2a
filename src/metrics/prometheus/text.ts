import type { MetricsRegistry } from './index.ts'
import type { RegistryMetric } from './metric.ts'

/** Metrics in the text format of Prometheus, for a program without prom-client. */
export class TextRegistry implements MetricsRegistry {
  readonly #metrics = new Map<string, RegistryMetric>()
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'

  registerMetric(metric: object): void {
    const added = metric as RegistryMetric
    this.#metrics.set(added.name, added)
  }

  removeSingleMetric(name: string): void {
    this.#metrics.delete(name)
  }

  /** Returns all metrics, as prom-client writes them. */
  async metrics(): Promise<string> {
    const texts = await Promise.all(Array.from(this.#metrics.values(), textOf))
    return `${texts.join('\n\n')}\n`
  }
}

/** @see https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format */
async function textOf(metric: RegistryMetric): Promise<string> {
  const { name, help, type, values } = await metric.get()
  const lines = values.map(({ metricName = name, labels, value }) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(String(text))}"`)
    return `${metricName}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
  })
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines].join('\n')
}

/** The names of limiters and limits may have any printable character. */
function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
}
