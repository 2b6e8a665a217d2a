// Metrics as registries of prom-client read them.

/** How prom-client adds up the values of several processes of a cluster. */
type Aggregator = 'sum' | 'min'

/** A value of a metric, with its labels. */
export interface Value {
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
