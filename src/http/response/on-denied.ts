import { isPromise } from '../../util/maybe-promise.ts'
import { beginDenial, type NodeHead } from './begun-denial.ts'
import { warnIfUnanswered } from './unanswered.ts'

/** What an `onDenied` of a Node framework is called with. */
export interface DenialCall {
  readonly onDenied: object
  readonly response: NodeHead
  readonly status: number
}

/**
 * Calls an `onDenied` whose response has the status and `Cache-Control: no-store` of a denial already. Both are undone when it
 * throws, and by `undo`, for a request that continues. Warns when it does not answer.
 */
export function callStarted({ onDenied, response, status }: DenialCall, call: (undo: () => void) => unknown): unknown {
  let isOver = false
  const undoHead = beginDenial(response, status)
  function undo(): void {
    if (!isOver) undoHead()
    isOver = true
  }
  function failed(error: unknown): never {
    undo()
    throw error
  }
  try {
    const answer = call(undo)
    warnIfUnanswered(onDenied, () => isOver || response.headersSent || response.destroyed === true)
    return isPromise(answer) ? Promise.resolve(answer).then(undefined, failed) : answer
  } catch (error) {
    return failed(error)
  }
}
