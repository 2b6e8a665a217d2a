import { isPromise } from '../../util/maybe-promise.ts'
import type { Decision } from '../../limiter/decision.ts'
import { checksOf } from '../checking.ts'
import { denialStatus } from '../denial.ts'

type HeaderValue = string | number | readonly string[]

/** The head of a Node response, of HTTP/1.1 or HTTP/2. */
export interface NodeHead {
  statusCode: number
  readonly headersSent: boolean
  readonly destroyed?: boolean
  getHeader(name: string): HeaderValue | undefined
  setHeader(name: string, value: HeaderValue): unknown
  removeHeader(name: string): void
}

/** Undoes the start of a denial. After an error, `Cache-Control` stays, because the error may be a denial, which no cache may store. */
export type Undo = (isError?: boolean) => void

/**
 * Sets the status and `Cache-Control: no-store` on a Node response before `onDenied` is called. Every denial has both.
 * @returns a function that undoes this, for a request that continues and for an error
 */
export function beginDenial(response: NodeHead, status: number): Undo {
  const { statusCode } = response
  const cacheControl = response.getHeader('Cache-Control')
  response.statusCode = status
  response.setHeader('Cache-Control', 'no-store')
  return function undo(isError = false) {
    if (response.headersSent) return
    response.statusCode = statusCode
    if (isError) return
    if (cacheControl === undefined) response.removeHeader('Cache-Control')
    else response.setHeader('Cache-Control', cacheControl)
  }
}

/** The data of a call of `onDenied` in a Node framework. */
interface DenialCall {
  readonly request: object
  readonly onDenied: object
  readonly response: NodeHead
  readonly decision: Decision
}

/**
 * Calls an `onDenied` after the status and `Cache-Control: no-store` of a denial were set. `undo` undoes both, for a request that continues. If `onDenied`
 * throws, only the status is undone. If the request is checked, warns if `onDenied` does not answer.
 */
export function callStarted(
  { request, onDenied, response, decision }: DenialCall,
  call: (undo: Undo) => unknown,
): unknown {
  let isOver = false
  const undoHead = beginDenial(response, denialStatus(decision))
  function undo(isError?: boolean): void {
    if (!isOver) undoHead(isError)
    isOver = true
  }
  return undoneByError(
    () => undo(true),
    () => {
      const answer = call(undo)
      const isAnswered = (): boolean => isOver || response.headersSent || response.destroyed === true
      checksOf(request)?.warnIfUnanswered(onDenied, isAnswered)
      return answer
    },
  )
}

/** Calls a function. If it throws or rejects, calls `undo` and then throws the same error. */
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
