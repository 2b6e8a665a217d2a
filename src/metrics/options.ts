import { knownOptions, wholeNumber } from '../util/validate.ts'

/** Options of `collect` and `instrument`. */
export interface MetricsOptions {
  /**
   * The most pairs of limiter and limit that are shown, from 1; a limiter as a whole is one of them. All others count together, as
   * `other`. Default 1,000 for Prometheus, and 600 for OpenTelemetry, whose SDK keeps 2,000 series for each instrument.
   */
  readonly maxSeries?: number
}

/** Metrics that are being collected. */
export interface Collection {
  /** Stops counting, and removes the metrics. */
  close(): void
}

export function checkedSeries(owner: string, options: MetricsOptions, most: number): number {
  knownOptions(owner, options, ['maxSeries'])
  return wholeNumber('maxSeries', options.maxSeries ?? most)
}
