/** A value of a metric, with its labels. */
export interface Value {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  readonly metricName?: string
}

/** A metric in the form that registries of prom-client read. A registry for OpenMetrics changes the name of a counter. */
export interface RegistryMetric {
  name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** How prom-client makes one value of the values of several processes of a cluster. */
  readonly aggregator: 'sum' | 'min' | 'max'
  get(): Promise<Pick<RegistryMetric, 'name' | 'help' | 'type' | 'aggregator'> & { readonly values: Value[] }>
  reset(): void
}

/** Metrics in the text format of Prometheus, for a program without prom-client. */
export class TextRegistry {
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

/** Escapes a label value: names of limiters and limits may contain any printable character. */
function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
}
