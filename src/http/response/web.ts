import { onAbort } from '../../util/shared-listener.ts'
import { refuse } from '../../util/validate.ts'
import { mergeRetryAfter, millisecondsBeside, RETRY_AFTER_MS } from '../headers/retry-after.ts'
import { withNames } from '../headers/cors.ts'
import { ABORTED } from './node.ts'

/**
 * Reports the end of the response to a request, for frameworks whose handlers return the response. It ends when its body was read completely, when the
 * runtime stops reading it, or when the request is aborted. A response without a body, and a response to HEAD, ends at once.
 * @example
 * const end = new ResponseEnd(request)
 * end.listen(() => console.log('sent or aborted'))
 * return end.deliver(await handle(request))
 */
export class ResponseEnd {
  readonly #request: Pick<Request, 'method' | 'signal'>
  readonly #listeners = new Set<() => void>()
  #response: Response | undefined

  constructor(request: Pick<Request, 'method' | 'signal'>) {
    this.#request = request
  }

  /** The response that was delivered. `undefined` before that, and if the request was aborted before. */
  get response(): Response | undefined {
    return this.#response
  }

  /** True if something is done at the end of the response. */
  get isAwaited(): boolean {
    return this.#listeners.size > 0
  }

  /** The `onEnd` of an `HttpAdapter`. */
  listen(listener: () => void): () => void {
    if (this.#listeners.size === 0) this.#listenToRequest()
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /**
   * Sets the response of the request.
   * @returns the response to pass to the runtime: the same one, or one whose body reports its end
   */
  deliver(response: Response): Response {
    this.#response = response
    if (this.#listeners.size === 0) return response
    if (response.body === null || this.#request.method === 'HEAD') {
      queueMicrotask(() => this.#ended(response))
      return response
    }
    const delivered = new Response(
      withEnd(response.body, () => this.#ended(delivered)),
      response,
    )
    this.#response = delivered
    return delivered
  }

  /** Takes back the delivered response, because another one replaces it. Has no effect once the response has ended. */
  withdraw(): void {
    if (this.#listeners.size > 0) this.#response = undefined
  }

  #ended(response: Response): void {
    if (response === this.#response) this.#callListeners()
  }

  #listenToRequest(): void {
    // Some runtimes have no signal.
    const signal = this.#request.signal as AbortSignal | undefined
    if (signal?.aborted) queueMicrotask(this.#callListeners)
    else if (signal !== undefined) onAbort(signal, this.#callListeners)
  }

  readonly #callListeners = (): void => {
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const listener of listeners) listener()
  }
}

/** Returns true if the client of a request has gone. Some runtimes have no signal. */
export function isAborted({ signal }: { readonly signal?: Pick<AbortSignal, 'aborted'> | undefined }): boolean {
  return signal?.aborted === true
}

/** Returns a stream with the same bytes that calls `end` when it was read completely or is cancelled. */
function withEnd(body: ReadableStream<Uint8Array>, end: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (!done) return controller.enqueue(value)
        end()
        controller.close()
      } catch (error) {
        end()
        throw error
      }
    },
    cancel(reason) {
      end()
      return reader.cancel(reason)
    },
  })
}

// For adapters whose handlers return responses as values. A draft has the headers until there is a response.

const EXPOSE_HEADERS = 'Access-Control-Expose-Headers'

/** Returns a response for a client that disconnected before there was one. Only functions of the user read it. */
export function clientGone(): Response {
  return new Response(null, { status: ABORTED })
}

/** Checks what a function of the user has returned. A `Response` of another realm is allowed. Throws `INVALID_OPTION` for any other value. */
export function responseFrom(
  option: 'onDenied' | 'handler',
  returned: unknown,
  expected = 'a function that returns a Response',
): Response {
  if (typeof returned === 'object' && returned !== null && 'headers' in returned) return returned as Response
  return refuse(option, expected, returned)
}

/**
 * Returns the headers of a draft that must be set on the response. Headers of the response itself do not change, but of two `Retry-After` the larger one is
 * used.
 *
 * @param exposed returns the headers that scripts can read when the response has CORS headers
 */
export function lateHeaders(
  response: Headers,
  draft: Headers,
  exposed: () => readonly string[],
): readonly [string, string][] {
  const late = [...draft].filter(([name]) => !response.has(name))
  const [theirs, ours] = [response.get('Retry-After'), draft.get('Retry-After')]
  if (theirs !== null && ours !== null) {
    const seconds = mergeRetryAfter(theirs, Number(ours), Date.now())!
    late.push(['Retry-After', String(seconds)])
    const ms = draft.get(RETRY_AFTER_MS)
    if (ms !== null && !response.has(RETRY_AFTER_MS))
      late.push([RETRY_AFTER_MS, String(millisecondsBeside(seconds, Number(ours), ms))])
  }
  const existing = response.get(EXPOSE_HEADERS) ?? draft.get(EXPOSE_HEADERS)
  const names = existing !== null || response.has('Access-Control-Allow-Origin') ? exposed() : []
  if (names.length > 0) late.push([EXPOSE_HEADERS, withNames(existing ?? '', names)])
  return late.filter(([name, value]) => response.get(name) !== value)
}
