import { onAbort } from '../../util/shared-listener.ts'

/**
 * Tells when the response to a request ends, for frameworks where a handler returns the response. It ends when its body was
 * read completely, when the runtime stops reading it, or when the request is aborted. A response without a body, and a response
 * to HEAD, ends at once.
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

  /** The response that was delivered. `undefined` before that, and when the request was aborted before. */
  get response(): Response | undefined {
    return this.#response
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

/** Returns the same bytes as a stream that calls `end` when it was read completely or is cancelled. */
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
