import { isPromise } from '../../util/maybe-promise.ts'
import { checksOf } from '../checking.ts'

type HeaderValue = string | number | readonly string[]

/** The head of a Node response, of HTTP/1.1 or HTTP/2. */
export interface NodeHead {
  statusCode: number
  readonly headersSent: boolean
  readonly destroyed?: boolean
  getHeader(name: string): HeaderValue | undefined
  setHeader(name: string, value: HeaderValue): unknown
  removeHeader(name: string): void
  /**
   * Where a framework distinguishes a status that the application has chosen: called before the status of a denial is set. Returns a
   * function to call once the earlier status is set again.
   */
  keepChoice?(status: number): () => void
}

/** Undoes the beginning of a denial. After an error `Cache-Control` stays: the error may be a denial, which no cache may store. */
export type Undo = (isError?: boolean) => void

/**
 * Sets what every denial has on a Node response, before `onDenied` is called: the status, and `Cache-Control: no-store`.
 * @returns a function that undoes this, for a request that continues and for an error
 */
export function beginDenial(response: NodeHead, status: number): Undo {
  const { statusCode } = response
  const cacheControl = response.getHeader('Cache-Control')
  const restoreChoice = response.keepChoice?.(status)
  response.statusCode = status
  response.setHeader('Cache-Control', 'no-store')
  return function undo(isError = false) {
    if (response.headersSent) return
    response.statusCode = statusCode
    restoreChoice?.()
    if (isError) return
    if (cacheControl === undefined) response.removeHeader('Cache-Control')
    else response.setHeader('Cache-Control', cacheControl)
  }
}

/** What an `onDenied` of a Node framework is called with. */
interface DenialCall {
  readonly request: object
  readonly onDenied: object
  readonly response: NodeHead
  readonly status: number
}

/**
 * Calls an `onDenied` whose response has the status and `Cache-Control: no-store` of a denial already. `undo` undoes both,
 * for a request that continues. When it throws, only the status is undone. If the request is checked, it warns when `onDenied` does not answer.
 */
export function callStarted(
  { request, onDenied, response, status }: DenialCall,
  call: (undo: Undo) => unknown,
): unknown {
  let isOver = false
  const undoHead = beginDenial(response, status)
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
