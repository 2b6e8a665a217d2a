import { isPromise } from '../../util/maybe-promise.ts'
import type { Decision } from '../../limiter/decision.ts'
import { checksOf } from '../checking.ts'
import { denialStatus } from '../denial.ts'

type HeaderValue = string | number | readonly string[]

/** The head of a response. A response of Node, of HTTP/1.1 or HTTP/2, is one. */
export interface ResponseHead {
  statusCode: number
  readonly headersSent: boolean
  readonly destroyed?: boolean
  getHeader(name: string): HeaderValue | undefined
  setHeader(name: string, value: HeaderValue): unknown
  removeHeader(name: string): void
}

/** The data of a call of `onDenied`. */
interface DenialCall {
  readonly request: object
  readonly onDenied: object
  readonly response: ResponseHead
  readonly decision: Decision
  /** True if the framework answers when `onDenied` has ended, and not when `onDenied` sends a response. */
  readonly isSentAtEnd?: boolean
}

/**
 * Sets the status and `Cache-Control: no-store`, which every denial has, and calls an `onDenied`. If the request is checked, warns if `onDenied` does not
 * answer.
 * @param call calls `onDenied`. It receives `undo`, which undoes both for a request that continues, and only the status after an error. If `onDenied` throws,
 *   `undo` is called
 */
export function callStarted(
  { request, onDenied, response, decision, isSentAtEnd = false }: DenialCall,
  call: (undo: (isError?: boolean) => void) => unknown,
): unknown {
  const { statusCode } = response
  const cacheControl = response.getHeader('Cache-Control')
  let isOver = false
  let hasAnswered = false
  response.statusCode = denialStatus(decision)
  response.setHeader('Cache-Control', 'no-store')

  function undo(isError = false): void {
    if (!isOver && !response.headersSent) restore(isError)
    isOver = true
  }
  function restore(isError: boolean): void {
    response.statusCode = statusCode
    // The error may be a denial, which no cache may store.
    if (isError) return
    if (cacheControl === undefined) response.removeHeader('Cache-Control')
    else response.setHeader('Cache-Control', cacheControl)
  }
  function ended(answer: unknown): unknown {
    hasAnswered = isSentAtEnd
    return answer
  }
  function failed(error: unknown): never {
    undo(true)
    throw error
  }

  try {
    const answer = call(undo)
    hasAnswered = isSentAtEnd && !isPromise(answer)
    checksOf(request)?.warnIfUnanswered(
      onDenied,
      () => isOver || hasAnswered || response.headersSent || response.destroyed === true,
    )
    return isPromise(answer) ? Promise.resolve(answer).then(ended, failed) : answer
  } catch (error) {
    return failed(error)
  }
}
