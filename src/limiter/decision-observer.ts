import { isPromise } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import type { Decision } from './decision.ts'

/** Called with decisions and their inputs. What it returns is not used. */
export type OnDecision<Input> = (decision: Decision, input: Input) => void

/**
 * Returns a function that calls `onDecision` and never throws. It does not wait for a promise. The first error, thrown or rejected,
 * becomes a warning with the code `SLUICE_OUTCOME`.
 */
export function decisionObserver<Input>(onDecision: OnDecision<Input>): OnDecision<Input> {
  let warned = false
  function fail(error: unknown): void {
    if (!warned) warn('SLUICE_OUTCOME', `onDecision failed. The decision does not change. ${String(error)}`)
    warned = true
  }
  return function observe(decision, input) {
    try {
      const result: unknown = onDecision(decision, input)
      if (isPromise(result)) void Promise.resolve(result).catch(fail)
    } catch (error) {
      fail(error)
    }
  }
}
