/** What a command prints, and its exit status. */
export interface Outcome {
  readonly text: string
  /** True for a text that is written as it is, except to a terminal. */
  readonly isExact?: boolean
  /** Written to the standard error. */
  readonly note?: string
  readonly exitCode?: number
}
