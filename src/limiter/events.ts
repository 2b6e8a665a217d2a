import { type Channel, channel } from '../util/channel.ts'
import type { Decision } from './decision.ts'

/**
 * The message on the channel `sluice:decision`: one for each decision of `consume`, and for the last one of `wait`.
 * @example
 * import { subscribe } from 'node:diagnostics_channel'
 * import type { DecisionEvent } from 'sluice'
 *
 * subscribe('sluice:decision', (message) => {
 *   const { limiter, decision } = message as DecisionEvent
 *   if (!decision.allowed) console.log(limiter, decision.binding?.limit.name, decision.retryAfter)
 * })
 */
export interface DecisionEvent<Input = unknown> {
  /** The name of the limiter, by default `default`. For a stack the names of its parts, joined by `+`. */
  readonly limiter: string
  /** The decision, with the verdicts of all limits. */
  readonly decision: Decision
  /** What the limiter decided on, such as the request. */
  readonly input: Input
  /** Milliseconds until the decision: 0 for a store that answers at once. With `wait` it includes the time of waiting. */
  readonly duration: number
}

/** Where limiters publish their decisions. */
export const decisions: Channel<DecisionEvent> = channel('sluice:decision')
