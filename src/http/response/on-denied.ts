import { isPromise } from '../../util/maybe-promise.ts'
import { beginDenial, type NodeHead, type Undo } from './begun-denial.ts'
import { warnIfUnanswered } from './unanswered.ts'

/** What an `onDenied` of a Node framework is called with. */
export interface DenialCall {
  readonly onDenied: object
  readonly response: NodeHead
  readonly status: number
  /** Called before an error of `onDenied` goes to the error handling of the framework. */
  readonly beforeError?: () => void
}

/**
 * Calls an `onDenied` whose response has the status and `Cache-Control: no-store` of a denial already. `undo` undoes both,
 * for a request that continues. When it throws, only the status is undone. Warns when it does not answer.
 */
export function callStarted(
  { onDenied, response, status, beforeError }: DenialCall,
  call: (undo: Undo) => unknown,
): unknown {
  let isOver = false
  const undoHead = beginDenial(response, status)
  function undo(isError?: boolean): void {
    if (!isOver) undoHead(isError)
    if (isError === true) beforeError?.()
    isOver = true
  }
  return undoneByError(
    () => undo(true),
    () => {
      const answer = call(undo)
      warnIfUnanswered(onDenied, () => isOver || response.headersSent || response.destroyed === true)
      return answer
    },
  )
}

/** Calls a function. If it throws or rejects, `undo` is called before the error goes on. */
export function undoneByError<Answer>(undo: () => void, call: () => Answer): Answer {
  function failed(error: unknown): never {
    undo()
    throw error
  }
  try {
    const answer: unknown = call()
    return (isPromise(answer) ? Promise.resolve(answer).then(undefined, failed) : answer) as Answer
  } catch (error) {
    return failed(error)
  }
}
