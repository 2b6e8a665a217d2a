import type { MaybePromise } from '../util/maybe-promise.ts'
import { sleep } from '../util/timer.ts'
import { refuse } from '../util/validate.ts'
import type { Rules } from './rules.ts'
import { type RulesFeed, type SourceOptions, startRules } from './start.ts'

/** Documents, one after another. */
export type Documents = AsyncIterable<unknown> | Iterable<unknown>

/**
 * Rules from any source of documents, such as an async generator that reads a database. Each document replaces the one before.
 * When the iterable throws, the current rules stay and `unreachable` is emitted. A function is then called again for another
 * iterable, after a pause of 1 to 30 seconds. The current rules stay after the last document, too. The function receives a signal
 * that is aborted by `rules.close()`, so that a source that waits can end.
 *
 * Rejects with `INVALID_RULES` or `RULES_UNREACHABLE` if there is no first document and no `fallback`, `INVALID_OPTION`.
 * @example
 * async function* documents() {
 *   yield await readRules()
 *   for await (const _ of notifications) yield await readRules()
 * }
 * const rules = await rulesFrom(documents)
 */
export async function rulesFrom<Input = unknown>(
  source: Documents | ((signal: AbortSignal) => MaybePromise<Documents>),
  options: SourceOptions<Input> = {},
): Promise<Rules<Input>> {
  const open = typeof source === 'function' ? source : () => source
  if (typeof source !== 'function' && !isIterable(source))
    refuse('rulesFrom', 'an iterable of documents, or a function that returns one', source)
  return startRules(options, (feed) => {
    const reader = new Reader(feed, open, typeof source === 'function')
    void reader.run()
    return () => reader.stop()
  })
}

const FIRST_PAUSE = 1000
const LONGEST_PAUSE = 30_000

/** Reads documents until it is stopped, and opens the source again after a failure if it can. */
class Reader {
  readonly #feed: RulesFeed
  readonly #open: (signal: AbortSignal) => MaybePromise<Documents>
  readonly #stopping = new AbortController()
  readonly #canReopen: boolean
  #pause = FIRST_PAUSE
  #isStopped = false
  #hasRead = false
  #iterator: AsyncIterator<unknown> | Iterator<unknown> | undefined
  #wake: () => void = () => undefined

  constructor(feed: RulesFeed, open: (signal: AbortSignal) => MaybePromise<Documents>, canReopen: boolean) {
    this.#feed = feed
    this.#open = open
    this.#canReopen = canReopen
  }

  async run(): Promise<void> {
    while (!this.#isStopped) {
      try {
        await this.#read()
        return
      } catch (error) {
        if (this.#isStopped) return
        this.#feed.unreachable(error)
        if (!this.#canReopen) return
        await this.#sleep()
      }
    }
  }

  stop(): void {
    this.#isStopped = true
    this.#stopping.abort()
    this.#wake()
    // A generator that waits for its next document returns only after it: nothing waits for that.
    void this.#close().catch(() => undefined)
  }

  async #close(): Promise<void> {
    await this.#iterator?.return?.()
  }

  async #read(): Promise<void> {
    const documents = await this.#open(this.#stopping.signal)
    this.#iterator =
      Symbol.asyncIterator in documents ? documents[Symbol.asyncIterator]() : documents[Symbol.iterator]()
    for (;;) {
      const next = await this.#iterator.next()
      if (this.#isStopped) return
      if (next.done === true) return this.#end()
      this.#pause = FIRST_PAUSE
      this.#hasRead = true
      this.#feed.document(await next.value)
    }
  }

  /** The current rules stay when there are no more documents. */
  #end(): void {
    if (!this.#hasRead) this.#feed.unreachable(new Error('The source ended without a document'))
  }

  #sleep(): Promise<void> {
    const ms = this.#pause
    this.#pause = Math.min(2 * ms, LONGEST_PAUSE)
    return new Promise((resolve) => {
      const cancel = sleep(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }
}

function isIterable(source: unknown): boolean {
  return typeof source === 'object' && source !== null && (Symbol.asyncIterator in source || Symbol.iterator in source)
}
