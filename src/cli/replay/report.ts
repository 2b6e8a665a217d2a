import type { LogSummary } from '../logs/summary.ts'
import type { ReplayReport } from './replay.ts'

/** What `sluice replay` prints. */
export interface Report extends ReplayReport {
  readonly log: LogSummary
}
