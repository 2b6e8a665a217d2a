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
  /** The rules to start with while the source cannot be read. Default: none, so that the start fails. */
  readonly fallback?: RulesDocument
  /** How long the first document may take. Default `'10s'`. */
  readonly timeout?: Duration
}

/** Where a source reports what it reads. It may call these at any time, until it is stopped. */
export interface RulesFeed {
  /**
   * Applies a document, unless it has mistakes or has the same content as the current one. Returns its mistakes. The source adds their places, and
   * calls `invalid` with them.
   * @param version its number, if the source has one
   */
  document(value: unknown, version?: number): readonly RulesProblem[]
  /** Reports a document with mistakes, or a text that is none, such as YAML with a syntax error. */
  invalid(problems: readonly RulesProblem[]): void
  /**
   * Reports that the source cannot be read. One event is emitted each minute until it can be read again.
   * @param loss `'missing'` for a source that can be read and has no document. Default `'unreachable'`
   */
  unreachable(error: unknown, loss?: Loss): void
}

/** Starts a source. Returns what stops it: no timer, listener or socket may be left then. */
type ConnectSource = (feed: RulesFeed) => MaybePromise<() => MaybePromise<void>>

const LONGEST_START = '10s'

/**
 * Starts rules from a source. Resolves once there is a first document, or with the `fallback` if there can be none. Rejects with
 * `INVALID_RULES` or `RULES_UNREACHABLE` without a fallback; the source is stopped then.
 */
export function startRules<Input>(options: SourceOptions<Input>, connect: ConnectSource): Promise<Rules<Input>> {
  options = knownOptions('rules', options, [...RULES_OPTIONS, 'fallback', 'timeout'])
  validateRulesOptions(options)
  const timeout = milliseconds('timeout', options.timeout ?? LONGEST_START)
  const fallback = options.fallback && compileRules(options.fallback, options)
  return new Start(options, fallback, timeout, connect).promise
}

/** Rules until their first document, and what their source reports. */
class Start<Input> implements RulesFeed {
  readonly promise: Promise<Rules<Input>>
  readonly #options: SourceOptions<Input>
  readonly #fallback: CompiledRules | undefined
  readonly #cancelTimeout: () => void
  #settle!: { resolve(rules: Rules<Input>): void; reject(error: unknown): void }
  #rules: Rules<Input> | undefined
  #isOver = false
  #stopSource: (() => MaybePromise<void>) | undefined

  constructor(
    options: SourceOptions<Input>,
    fallback: CompiledRules | undefined,
    timeout: number,
    connect: ConnectSource,
  ) {
    this.#options = options
    this.#fallback = fallback
    this.promise = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.#cancelTimeout = sleep(timeout, () =>
      this.unreachable(new Error(`There was no document within ${timeout} ms`)),
    )
    void this.#connect(connect)
  }

  document(value: unknown, version?: number): readonly RulesProblem[] {
    if (this.#isOver) return []
    try {
      if (this.#rules === undefined) this.#begin(compileRules(value, this.#options), version)
      else this.#rules.replace(value as RulesDocument, version === undefined ? {} : { version })
    } catch (error) {
      const problems = mistakesIn(error)
      if (problems !== undefined) return problems
      this.unreachable(error)
    }
    return []
  }

  invalid(problems: readonly RulesProblem[]): void {
    if (this.#isOver) return
    if (this.#rules === undefined) this.#beginWithout(invalidRules(problems), (rules) => Rules.refuse(rules, problems))
    else Rules.refuse(this.#rules, problems)
  }

  unreachable(error: unknown, loss: Loss = 'unreachable'): void {
    if (this.#isOver) return
    if (this.#rules !== undefined) return Rules.lose(this.#rules, error, loss)
    const failure = new SluiceError('RULES_UNREACHABLE', `The rules could not be read. ${textOf(error)}`, {
      cause: error,
    })
    this.#beginWithout(failure, (rules) => Rules.lose(rules, error, loss))
  }

  async #connect(connect: ConnectSource): Promise<void> {
    try {
      this.#stopSource = await connect(this)
      if (this.#isOver) await this.#stopSource()
    } catch (error) {
      this.unreachable(error)
    }
  }

  #begin(compiled: CompiledRules, version: number | undefined): Rules<Input> {
    this.#cancelTimeout()
    const rules = new Rules<Input>(compiled, this.#options, version)
    warnOfRest(compiled)
    this.#rules = rules
    Rules.whenClosed(rules, () => this.#stop())
    this.#settle.resolve(rules)
    return rules
  }

  /** Begins with the fallback, or fails without one. A listener can be added before `report` emits an event. */
  #beginWithout(failure: SluiceError, report: (rules: Rules<Input>) => void): void {
    if (this.#fallback !== undefined) {
      const rules = this.#begin(this.#fallback, 0)
      sleep(0, () => report(rules))
      return
    }
    this.#cancelTimeout()
    void this.#stopThen(() => this.#settle.reject(failure))
  }

  /** Calls `next` also when the source cannot be stopped. */
  async #stopThen(next: () => void): Promise<void> {
    try {
      await this.#stop()
    } catch {
      // The failure that is reported came first.
    }
    next()
  }

  #stop(): MaybePromise<void> {
    this.#isOver = true
    return this.#stopSource?.()
  }
}

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
      const problems = this.#feed.document(await next.value)
      if (problems.length > 0) this.#feed.invalid(problems)
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
