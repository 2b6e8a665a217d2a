import { observer } from '../util/warn.ts'
import type { Decision } from './decision.ts'

/** Called with decisions and their inputs. What it returns is not used. */
export type OnDecision<Input> = (decision: Decision, input: Input) => void

/** Returns a function that calls `onDecision` and never throws. */
export function decisionObserver<Input>(onDecision: OnDecision<Input>): OnDecision<Input> {
  return observer(onDecision, 'onDecision failed. The decision does not change.')
}
