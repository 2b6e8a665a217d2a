/**
 * How the response to a request ends, where responses are values that a handler returns: it is over when its body has been
 * read to the end, when the runtime stops reading it, or when the request is aborted. Without a body, and with one that
 * nobody reads because the request is a HEAD, it is over at once.
 */
export class Ending {
  readonly #request: Pick<Request, 'method' | 'signal'>
  readonly #listeners = new Set<() => void>()
  #answer: Response | undefined

  constructor(request: Pick<Request, 'method' | 'signal'>) {
    this.#request = request
  }

  /** What the request was answered with; `undefined` until then, and when it was aborted before. */
  get answer(): Response | undefined {
    return this.#answer
  }

  /** What a `Surface` says as `ended`. */
  listen(listener: () => void): () => void {
    if (this.#listeners.size === 0) this.#watchRequest()
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /**
   * Tells that this is the answer.
   * @returns what to hand to the runtime: the same, or one whose body is watched
   */
  deliver(answer: Response): Response {
    this.#answer = answer
    if (this.#listeners.size === 0) return answer
    if (answer.body === null || this.#request.method === 'HEAD') {
      queueMicrotask(() => this.#over(answer))
      return answer
    }
    const delivered = new Response(
      watched(answer.body, () => this.#over(delivered)),
      answer,
    )
    this.#answer = delivered
    return delivered
  }

  /** Tells that another answer comes in place of the one that was delivered, and is to be waited for, unless that is over. */
  withdraw(): void {
    if (this.#listeners.size > 0) this.#answer = undefined
  }

  #over(answer: Response): void {
    if (answer === this.#answer) this.#end()
  }

  #watchRequest(): void {
    // Some runtimes have none.
    const signal = this.#request.signal as AbortSignal | undefined
    if (signal?.aborted) queueMicrotask(this.#end)
    else signal?.addEventListener('abort', this.#end, { once: true })
  }

  readonly #end = (): void => {
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const each of listeners) each()
  }
}

/** The same bytes; `end` is called when they have been read, or will not be. */
function watched(body: ReadableStream<Uint8Array>, end: () => void): ReadableStream<Uint8Array> {
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
