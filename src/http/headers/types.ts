import type { Decision } from '../../limiter/decision.ts'

/** Sets a header field of the response, in place of what it held. */
export type SetField = (name: string, value: string) => void

/** Writes what a decision tells the client; `now` is in epoch milliseconds. */
export type FieldWriter = (decision: Decision, now: number, set: SetField) => void
