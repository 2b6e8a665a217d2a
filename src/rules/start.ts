import { SluiceError, textOf } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { sleep } from '../util/timer.ts'
import { knownOptions, milliseconds } from '../util/validate.ts'
import type { Duration } from '../limits/limit.ts'
import { compileRules } from './compile.ts'
import type { RulesDocument, RulesProblem } from './document.ts'
import { invalidRules } from './problems.ts'
import { Rules, RULES_OPTIONS, type RulesOptions, validateRulesOptions } from './rules.ts'

/** The options of every source. */
export interface SourceOptions<Input> extends RulesOptions<Input> {
  /** The rules to start with while the source cannot be read. Default: none, so that the start fails. */
  readonly fallback?: RulesDocument
  /** How long the first document may take. Default `'10s'`. */
  readonly timeout?: Duration
}

/** Adds the file and the lines to mistakes. */
export type Locate = (problems: readonly RulesProblem[]) => readonly RulesProblem[]

/** Where a source reports what it reads. It may call these at any time, until it is stopped. */
export interface RulesFeed {
  /**
   * Applies a document, unless it has mistakes or has the same content as the current one.
   * @param version its number, if the source has one
   * @param located adds the place in the source to mistakes
   * @returns false for a document with mistakes
   */
  document(value: unknown, version?: number, located?: Locate): boolean
  /** Reports a text that is no document, such as YAML with a syntax error. */
  invalid(problems: readonly RulesProblem[]): void
  /** Reports that the source cannot be read. One event is emitted until it can be read again. */
  unreachable(error: unknown): void
}

/** Starts a source. Returns what stops it: no timer, listener or socket may be left then. */
export type ConnectSource = (feed: RulesFeed) => MaybePromise<() => MaybePromise<void>>

const LONGEST_START = '10s'

/**
 * Starts rules from a source. Resolves once there is a first document, or with the `fallback` if there can be none. Rejects with
 * `INVALID_RULES` or `RULES_UNREACHABLE` without a fallback; the source is stopped then.
 */
export function startRules<Input>(options: SourceOptions<Input>, connect: ConnectSource): Promise<Rules<Input>> {
  knownOptions('rules', options, [...RULES_OPTIONS, 'fallback', 'timeout'])
  validateRulesOptions(options)
  const timeout = milliseconds('timeout', options.timeout ?? LONGEST_START)
  if (options.fallback !== undefined) compileRules(options.fallback, options)
  return new Start(options, timeout, connect).promise
}

/** Rules until their first document, and what their source reports. */
class Start<Input> implements RulesFeed {
  readonly promise: Promise<Rules<Input>>
  readonly #options: SourceOptions<Input>
  readonly #cancelTimeout: () => void
  #settle!: { resolve(rules: Rules<Input>): void; reject(error: unknown): void }
  #rules: Rules<Input> | undefined
  #isOver = false
  #stopSource: (() => MaybePromise<void>) | undefined

  constructor(options: SourceOptions<Input>, timeout: number, connect: ConnectSource) {
    this.#options = options
    this.promise = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.#cancelTimeout = sleep(timeout, () =>
      this.unreachable(new Error(`There was no document within ${timeout} ms`)),
    )
    void this.#connect(connect)
  }

  document(value: unknown, version?: number, located: Locate = (problems) => problems): boolean {
    if (this.#isOver) return false
    try {
      if (this.#rules === undefined) this.#begin(new Rules<Input>(value, this.#options, version))
      else this.#rules.replace(value as RulesDocument, version === undefined ? {} : { version })
      return true
    } catch (error) {
      const isInvalid = error instanceof SluiceError && error.code === 'INVALID_RULES'
      if (isInvalid) this.invalid(located(error.cause as readonly RulesProblem[]))
      else this.unreachable(error)
      return false
    }
  }

  invalid(problems: readonly RulesProblem[]): void {
    if (this.#isOver) return
    if (this.#rules === undefined) this.#beginWithout(invalidRules(problems), (rules) => Rules.refuse(rules, problems))
    else Rules.refuse(this.#rules, problems)
  }

  unreachable(error: unknown): void {
    if (this.#isOver) return
    if (this.#rules !== undefined) return Rules.lose(this.#rules, error)
    const failure = new SluiceError('RULES_UNREACHABLE', `The rules could not be read. ${textOf(error)}`, {
      cause: error,
    })
    this.#beginWithout(failure, (rules) => Rules.lose(rules, error))
  }

  async #connect(connect: ConnectSource): Promise<void> {
    try {
      this.#stopSource = await connect(this)
      if (this.#isOver) await this.#stopSource()
    } catch (error) {
      this.unreachable(error)
    }
  }

  #begin(rules: Rules<Input>): void {
    this.#cancelTimeout()
    this.#rules = rules
    Rules.whenClosed(rules, () => this.#stop())
    this.#settle.resolve(rules)
  }

  /** Begins with the fallback, or fails without one. A listener can be added before `report` emits an event. */
  #beginWithout(failure: SluiceError, report: (rules: Rules<Input>) => void): void {
    const { fallback } = this.#options
    if (fallback !== undefined) {
      const rules = new Rules<Input>(fallback, this.#options, 0)
      this.#begin(rules)
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
