import { SluiceError, textOf } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { sleep } from '../util/clock.ts'
import { knownOptions, milliseconds, refuse } from '../util/validate.ts'
import type { Duration } from '../engine/limit.ts'
import { compileRules } from './compile.ts'
import type { CompiledRules } from './dimensions.ts'
import { invalidRules, mistakesIn, type RulesDocument, type RulesProblem } from './document.ts'
import { type Loss, Rules, RULES_OPTIONS, type RulesOptions, validateRulesOptions, warnOfRest } from './rules.ts'

/** The options of every source. */
export interface SourceOptions<Input> extends RulesOptions<Input> {
  /** The rules for a start without a readable source. Default: none, so the start fails then. */
  readonly fallback?: RulesDocument
  /** How long the first document may take. Default `'10s'`. */
  readonly timeout?: Duration
}

/** A source calls these functions with its results. It may call them at any time until it is stopped. */
export interface RulesFeed {
  /**
   * Applies a document, unless it has mistakes or the same content as the current one. Returns its mistakes. The source adds their places, and calls `invalid`
   * with them.
   * @param version the number of the document, if the source has one
   */
  document(value: unknown, version?: number): readonly RulesProblem[]
  /** Reports a document with mistakes, or a text that is not a document, such as YAML with a syntax error. */
  invalid(problems: readonly RulesProblem[]): void
  /**
   * Reports that the source cannot be read. An event is emitted each minute until it can be read again.
   * @param loss `'missing'` if the source can be read but has no document. Default `'unreachable'`
   */
  unreachable(error: unknown, loss?: Loss): void
}

/** Starts a source. Returns a function that stops it. After that, no timer, listener or socket may be left. */
type ConnectSource = (feed: RulesFeed) => MaybePromise<() => MaybePromise<void>>

const LONGEST_START = '10s'

/**
 * Returns the own options of a source. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @param owner the name of the function that creates the source
 * @param more the names of options that only this source has
 */
export function sourceOptions<Options extends SourceOptions<never>>(
  owner: string,
  options: Options,
  ...more: readonly string[]
): Options {
  return knownOptions(owner, options, [...RULES_OPTIONS, 'fallback', 'timeout', ...more])
}

/**
 * Starts rules from a source, with options of `sourceOptions`. Resolves when there is a first document, or with the `fallback` if there is none. Without a fallback, stops the source and
 * rejects with `INVALID_RULES` or `RULES_UNREACHABLE`.
 */
export function startRules<Input>(options: SourceOptions<Input>, connect: ConnectSource): Promise<Rules<Input>> {
  validateRulesOptions(options)
  const { timeout: longest = LONGEST_START, fallback: document } = options
  const timeout = milliseconds('timeout', longest)
  const fallback = document === undefined ? undefined : compileRules(document, options)
  return new Promise((resolve, reject) => {
    let rules: Rules<Input> | undefined
    let isOver = false
    let stopSource: (() => MaybePromise<void>) | undefined

    function stop(): MaybePromise<void> {
      isOver = true
      return stopSource?.()
    }

    function begin(compiled: CompiledRules, version: number | undefined): Rules<Input> {
      cancelTimeout()
      rules = new Rules<Input>(compiled, options, version)
      warnOfRest(compiled)
      Rules.whenClosed(rules, stop)
      resolve(rules)
      return rules
    }

    /** Reports why the rules began with the fallback, once. */
    let reportBegin = (): void => undefined

    /**
     * Reports why there is no document. At the start, begins with the fallback, or fails without one. The report comes later then, so that a listener can be
     * added before, and before the next document.
     */
    function withoutDocument(failure: SluiceError, report: (rules: Rules<Input>) => void): void {
      if (isOver) return
      if (rules !== undefined) return report(rules)
      if (fallback === undefined) return void fail(failure)
      const begun = begin(fallback, 0)
      reportBegin = () => {
        reportBegin = () => undefined
        report(begun)
      }
      sleep(0, () => reportBegin())
    }

    async function fail(failure: SluiceError): Promise<void> {
      cancelTimeout()
      try {
        await stop()
      } catch {
        // The first failure is reported.
      }
      reject(failure)
    }

    const feed: RulesFeed = {
      document(value, version) {
        if (isOver) return []
        reportBegin()
        try {
          if (rules === undefined) begin(compileRules(value, options), version)
          else {
            // The first document after a fallback has a number of its own, also if its content is the same.
            const number = version ?? (rules.current.version === 0 ? 1 : undefined)
            rules.replace(value as RulesDocument, number === undefined ? {} : { version: number })
          }
        } catch (error) {
          const problems = mistakesIn(error)
          if (problems !== undefined) return problems
          feed.unreachable(error)
        }
        return []
      },
      invalid(problems) {
        withoutDocument(invalidRules(problems), (begun) => Rules.refuse(begun, problems))
      },
      unreachable(error, loss = 'unreachable') {
        const message = `The rules could not be read. ${textOf(error)}`
        const failure = new SluiceError('RULES_UNREACHABLE', message, { cause: error })
        withoutDocument(failure, (begun) => Rules.lose(begun, error, loss))
      },
    }

    const cancelTimeout = sleep(timeout, () =>
      feed.unreachable(new Error(`There was no document within ${timeout} ms`)),
    )
    async function start(): Promise<void> {
      try {
        stopSource = await connect(feed)
        if (isOver) await stopSource()
      } catch (error) {
        feed.unreachable(error)
      }
    }
    void start()
  })
}

/** A sequence of documents. */
export type Documents = AsyncIterable<unknown> | Iterable<unknown>

/**
 * Rules from any source of documents, such as an async generator that reads a database. Each document replaces the previous one. If the iterable throws, the
 * current rules stay and `unreachable` is emitted. If the source is a function, it is called again after a pause of 1 to 30 seconds. After the last
 * document, the current rules also stay. The function receives a signal that `rules.close()` aborts, so that a source that waits can end.
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
  options = sourceOptions('rulesFrom', options)
  const open = typeof source === 'function' ? source : () => source
  if (typeof source !== 'function' && !isIterable(source))
    refuse('rulesFrom', 'an iterable of documents, or a function that returns one', source)
  return startRules(options, (feed) => readDocuments(feed, open, typeof source === 'function'))
}

const FIRST_PAUSE = 1000
const LONGEST_PAUSE = 30_000

/** Reads documents, and opens the source again after a failure if this is possible. Returns a function that stops it. */
function readDocuments(
  feed: RulesFeed,
  open: (signal: AbortSignal) => MaybePromise<Documents>,
  canReopen: boolean,
): () => void {
  const stopping = new AbortController()
  const { signal } = stopping
  let iterator: AsyncIterator<unknown> | Iterator<unknown> | undefined
  let hasRead = false
  /** The mistakes of the latest document. They are reported once, because a source that polls may return this document again and again. */
  let mistakes = ''
  let ms = FIRST_PAUSE
  let wake = (): void => undefined

  async function read(): Promise<void> {
    const documents = await open(signal)
    if (!isIterable(documents))
      refuse('rulesFrom', 'an iterable of documents from the function, such as an async generator', documents)
    iterator = Symbol.asyncIterator in documents ? documents[Symbol.asyncIterator]() : documents[Symbol.iterator]()
    for (;;) {
      const next = await iterator.next()
      if (signal.aborted) return
      if (next.done === true) break
      ms = FIRST_PAUSE
      hasRead = true
      const problems = feed.document(await next.value)
      const found = JSON.stringify(problems)
      if (problems.length > 0 && found !== mistakes) feed.invalid(problems)
      mistakes = found
    }
    // The current rules stay when there are no more documents.
    if (!hasRead) feed.unreachable(new Error('The source ended without a document'))
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      try {
        return await read()
      } catch (error) {
        if (signal.aborted) return
        mistakes = ''
        feed.unreachable(error)
        if (!canReopen) return
        await pause()
      }
    }
  }

  function pause(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = sleep(ms, resolve)
      ms = Math.min(2 * ms, LONGEST_PAUSE)
      wake = () => {
        cancel()
        resolve()
      }
    })
  }

  async function close(): Promise<void> {
    await iterator?.return?.()
  }

  void run()
  return function stop() {
    stopping.abort()
    wake()
    // A generator that waits for its next document only returns after that document, so this promise is not awaited.
    void close().catch(() => undefined)
  }
}

function isIterable(source: unknown): source is Documents {
  return typeof source === 'object' && source !== null && (Symbol.asyncIterator in source || Symbol.iterator in source)
}
