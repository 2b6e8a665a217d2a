import type { LoggedRequest } from './request.ts'

/** Text that was read at once. A part of it keeps the whole in memory. */
export interface Chunk {
  readonly size: number
  /** The entries of it that wait in a reorder window. */
  held: number
}

/** A request of a log with its key, its cost and its place. */
export interface LogEntry {
  readonly request: LoggedRequest
  readonly key: string
  readonly cost: number
  /** From 1. */
  readonly line: number
  readonly chunk: Chunk
}
