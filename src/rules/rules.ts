import type { EventEmitter } from 'node:events'
import type { Limiter } from '../limiter/contract.ts'
import { RULES, type RulesLimiterOptions, type RuleSource } from '../limiter/options.ts'
import type { InputReader } from '../limiter/rule-source.ts'
import { isEqual } from '../limiter/keyers.ts'
import { builtin } from '../util/builtin.ts'
import { type Channel, channel } from '../util/channel.ts'
import { brand } from '../util/copies.ts'
import { reasonOf, shown, type SluiceError, textOf } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import { observer, warn } from '../util/warn.ts'
import { addressKeyer } from '../http/keys/address.ts'
import { AttributeWatch, RulesCharges, type RulesInForce } from './charges.ts'
import { compileRules } from './compile.ts'
import type { CompiledPolicy, CompiledRules } from './dimensions.ts'
import {
  invalidRules,
  type OtherwiseRule,
  type RulesDocument,
  type RulesProblem,
  type RulesVersion,
} from './document.ts'
import { limiterOf } from './limiter.ts'
import { type ShadowOptions, ShadowRules } from './shadow.ts'

/** Options of `createRules`, and of every source of rules. */
export interface RulesOptions<Input> {
  /**
   * Returns the attributes of an input. Documents match them, and use them as keys and costs. It is called once for each request, and
   * only if the document names an attribute. Anything but an object is the error `INVALID_OPTION` at the request.
   * @example rulesFromFile('rules.yaml', { attributes: (request: express.Request) => ({ tenant: request.get('x-tenant') }) })
   */
  readonly attributes?: (input: Input, ...rest: readonly never[]) => MaybePromise<Readonly<Record<string, unknown>>>
  /** Returns the client's address. Default: the address from the framework. */
  readonly address?: (input: Input, ...rest: readonly never[]) => string | undefined
  /** The bits of an IPv6 address that are the key `ip`, 32 to 128. Default 56, because a client has many addresses. */
  readonly ipv6Subnet?: number
}

export const RULES_OPTIONS: readonly string[] = ['attributes', 'address', 'ipv6Subnet']

/** The events of rules, and the arguments of their listeners. */
export interface RulesEvents {
  /** A new document replaced the current rules. */
  change: [{ readonly before: RulesVersion; readonly after: RulesVersion }]
  /** A document had mistakes. The current rules stay. */
  invalid: [{ readonly problems: readonly RulesProblem[]; readonly error: SluiceError }]
  /**
   * The source could not be read, or has no document. The current rules stay. Emitted at once for each of the two problems, and again each minute while it
   * lasts.
   */
  unreachable: [{ readonly error: unknown }]
  /** A valid document was read after `invalid` or `unreachable`, even if it is the same as before. */
  recovered: [{ readonly current: RulesVersion }]
}

/** Why there is no document: the source cannot be read, or it has none. */
export type Loss = 'unreachable' | 'missing'

/** Milliseconds after which a loss is reported again. */
const REPORT_EVERY = 60_000

/** The message on the channel `sluice:rules`: the name of an event, its rules, and the argument of the listeners of this event. */
export type RulesEvent = {
  [Name in keyof RulesEvents]: {
    /** The name of the event. */
    readonly event: Name
    /** The rules that report it. */
    readonly rules: RulesInEvent
  } & RulesEvents[Name][0]
}[keyof RulesEvents]

/** The members of rules that a listener can use, for any type of requests. */
export type RulesInEvent = Pick<Rules, 'current' | 'replace' | 'close'>

const channelOfRules: Channel<RulesEvent> = channel('sluice:rules')

type Listener = (this: object, ...given: unknown[]) => unknown

/** The methods of an `EventEmitter` that listeners need, for a runtime without `node:events`. */
class SmallEmitter {
  readonly #listeners = new Map<string, readonly Listener[]>()
  readonly addListener = this.on
  readonly removeListener = this.off

  on(event: string, listener: Listener): this {
    this.#listeners.set(event, [...this.rawListeners(event), listener])
    return this
  }

  once(event: string, listener: Listener): this {
    const onlyOnce: Listener = (...given) => {
      this.off(event, onlyOnce)
      return listener.apply(this, given)
    }
    return this.on(event, Object.assign(onlyOnce, { listener }))
  }

  off(event: string, listener: Listener): this {
    const all = this.rawListeners(event)
    const isIt = (each: Listener & { listener?: Listener }): boolean => each === listener || each.listener === listener
    const last = all.findLastIndex(isIt)
    this.#listeners.set(
      event,
      all.filter((_, i) => i !== last),
    )
    return this
  }

  listenerCount(event: string): number {
    return this.rawListeners(event).length
  }

  rawListeners(event: string): readonly Listener[] {
    return this.#listeners.get(event) ?? []
  }
}

const events = builtin('node:events') as { readonly EventEmitter: typeof EventEmitter } | undefined
const Emitter: typeof EventEmitter = events?.EventEmitter ?? (SmallEmitter as unknown as typeof EventEmitter)

/**
 * Current rules, for the option `rules` of `rateLimit` and `createLimiter`. Requests use one version of them in this process, and never read the source.
 * @example
 * const rules = await rulesFromFile('rules.yaml')
 * rules.on('change', ({ after }) => console.log(`version ${after.version}`))
 * app.use(rateLimit({ rules }))
 */
export class Rules<Input = unknown> extends Emitter<RulesEvents> implements RuleSource<Input> {
  readonly #options: RulesOptions<Input>
  #current: RulesVersion
  #compiled: CompiledRules
  #shadow: ShadowRules<Input> | undefined
  /** When each problem of the source was last reported, in milliseconds of `performance.now()`. Empty if there is none. */
  readonly #problems = new Map<Loss | 'invalid', number>()
  #stop: (() => MaybePromise<void>) | undefined
  readonly #inForce: RulesInForce<Input>

  /** Do not call it: use `createRules` or a source. */
  constructor(compiled: CompiledRules, options: RulesOptions<Input>, version?: number) {
    super()
    this.#options = options
    this.#compiled = compiled
    this.#current = versionOf(this.#compiled, version ?? 1)
    const { attributes, address } = options
    this.#inForce = {
      compiled: () => this.#compiled,
      watch: new AttributeWatch(),
      attributes: (input, reader) =>
        attributes === undefined ? reader.attributes(input) : attributes(input, ...restOf(reader, input)),
      address: (input, reader) =>
        address === undefined ? reader.address(input) : address(input, ...restOf(reader, input)),
      decided: (input, cost, decision, charges) => this.#shadow?.observe(input, cost, decision, charges),
    }
  }

  /** The current rules. Frozen. */
  get current(): RulesVersion {
    return this.#current
  }

  /**
   * Applies another document to all requests that begin after the call. Returns false, without an event, for a document with the same
   * content: only the number of the current rules changes then, if `version` is given. Throws `INVALID_RULES` with all mistakes as `cause`,
   * `INVALID_OPTION` or `UNKNOWN_OPTION`, and changes nothing.
   */
  replace(document: RulesDocument, options: ReplaceOptions = {}): boolean {
    const { version } = knownOptions('replace', options, ['version'])
    if (version !== undefined && !Number.isSafeInteger(version)) refuse('version', 'a whole number', version)
    const compiled = compileRules(document, this.#options, this.#compiled)
    const before = this.#current
    const after = versionOf(compiled, version ?? before.version + 1)
    const isChanged = !isEqual(before.policies, after.policies) || !isEqual(before.otherwise, after.otherwise)
    if (isChanged) {
      warnOfRest(compiled, this.#compiled)
      this.#compiled = compiled
      this.#current = after
      Rules.#report(this, { event: 'change', rules: this, before, after })
    } else if (version !== undefined) this.#current = Object.freeze({ ...before, version })
    this.#recover()
    return isChanged
  }

  /** If there was a problem, reports that it is solved. */
  #recover(): void {
    if (this.#problems.size === 0) return
    this.#problems.clear()
    const current = this.#current
    warn('SLUICE_RULES_RECOVERY', `The rules are read again. Version ${current.version} applies.`)
    Rules.#report(this, { event: 'recovered', rules: this, current })
  }

  /**
   * Evaluates another document in addition to the current one, and counts the requests that it would have denied. It denies nothing. It replaces an earlier
   * document in shadow. Limits by `concurrent` are not evaluated, and refunds and settlements do not change what it counts. Throws `INVALID_RULES`.
   *
   * A string is the name of a file if it ends in `.json`, `.yaml` or `.yml` and has one line, otherwise a text in JSON or YAML. For both, and for the URL
   * of a file, the result is a promise. It rejects with `INVALID_RULES`, or with the error of the file.
   * @example
   * const trial = await rules.shadow('tightened.yaml')
   * trial.report.newlyDenied // requests that were admitted and that the document would have denied
   */
  shadow(document: RulesDocument, options?: ShadowOptions<Input>): ShadowRules<Input>
  shadow(document: string | URL, options?: ShadowOptions<Input>): Promise<ShadowRules<Input>>
  shadow(document: RulesDocument | string | URL, options: ShadowOptions<Input> = {}): MaybePromise<ShadowRules<Input>> {
    if (typeof document !== 'string' && !(document instanceof URL))
      return this.#tryOut(compileRules(document, this.#options), options)
    return import('./read.ts')
      .then(({ compileTextOrFile }) => compileTextOrFile(document, this.#options))
      .then((compiled) => this.#tryOut(compiled, options))
  }

  #tryOut(compiled: CompiledRules, options: ShadowOptions<Input>): ShadowRules<Input> {
    const forget = (trial: ShadowRules<Input>): void => {
      if (this.#shadow === trial) this.#shadow = undefined
    }
    this.#shadow = new ShadowRules(compiled, options, this.#inForce, forget)
    return this.#shadow
  }

  /** Stops watching the source. The current rules stay. */
  async close(): Promise<void> {
    const stop = this.#stop
    this.#stop = undefined
    await stop?.()
  }

  /** Makes a limiter from the rules. `createLimiter` and `rateLimit` call it. */
  limiter(options: RulesLimiterOptions<Input>, reader?: InputReader<Input>): Limiter<Input> {
    return limiterOf(options, reader, (place) => new RulesCharges(this.#inForce, place))
  }

  // These methods are static, so that only sources can call them: the package exports only the type of this class.

  /** Reports a document with mistakes. */
  static refuse<Input>(rules: Rules<Input>, problems: readonly RulesProblem[]): void {
    const error = invalidRules(problems)
    rules.#problems.clear()
    rules.#problems.set('invalid', performance.now())
    warn('SLUICE_RULES_INVALID', `${reasonOf(error)}\nThe current rules stay.`)
    Rules.#report(rules, { event: 'invalid', rules, problems, error })
  }

  /** Reports that there is no document: at once, and again each minute. */
  static lose<Input>(rules: Rules<Input>, error: unknown, loss: Loss): void {
    const now = performance.now()
    if (now - (rules.#problems.get(loss) ?? -Infinity) < REPORT_EVERY) return
    rules.#problems.set(loss, now)
    warn('SLUICE_RULES_UNREACHABLE', `The rules could not be read. The current rules stay. ${textOf(error)}`)
    Rules.#report(rules, { event: 'unreachable', rules, error })
  }

  static #report<Input>(rules: Rules<Input>, message: RulesEvent): void {
    const { event, rules: _rules, ...details } = message
    if (channelOfRules.hasSubscribers) channelOfRules.publish(message)
    for (const listener of rules.rawListeners(event)) {
      const failure = `A listener of the event "${event}" of rules failed. The other listeners are called.`
      observer(() => Reflect.apply(listener, rules, [details]) as unknown, failure)()
    }
  }

  /** Sets the function that `close` calls. */
  static whenClosed<Input>(rules: Rules<Input>, stop: () => MaybePromise<void>): void {
    rules.#stop = stop
  }
}

brand(Rules, RULES)

/** Returns the other arguments of a handler, with the types that the function of the user has. */
function restOf<Input>(reader: InputReader<Input>, input: Input): readonly never[] {
  return reader.rest(input) as readonly never[]
}

function versionOf({ policies, otherwise }: CompiledRules, version: number): RulesVersion {
  return Object.freeze({
    version,
    policies: Object.freeze(policies.map(({ rule }) => rule)),
    ...(otherwise !== undefined && { otherwise: otherwiseOf(otherwise) }),
    loadedAt: Date.now(),
  })
}

function otherwiseOf({
  rule: { name: _name, allow, ...rule },
}: CompiledPolicy): NonNullable<RulesVersion['otherwise']> {
  return allow === true ? 'allow' : (Object.freeze(rule) as OtherwiseRule)
}

/** The text about a document without `otherwise`. */
export const NO_OTHERWISE =
  'Requests that no policy matches are not limited. Add `otherwise: { key, limits }` to the document, or `otherwise: allow` if this is intended.'

/** Returns the text about a policy that exempts all clients. */
export function allAllowed(policy: string): string {
  return `The policy ${shown(policy)} has \`allow\` and matches all clients, so the limits of the other policies have no effect. Give it a \`match\`, or an \`until\`.`
}

/** Warns about a document without `otherwise`, or that exempts all clients, unless this is also true of the document before it. */
export function warnOfRest({ leavesRest, allowsAll }: CompiledRules, before?: CompiledRules): void {
  if (leavesRest && before?.leavesRest !== true) warn('SLUICE_NO_OTHERWISE', NO_OTHERWISE)
  if (allowsAll !== undefined && before?.allowsAll === undefined) warn('SLUICE_ALL_ALLOWED', allAllowed(allowsAll))
}

/** Options of `rules.replace`. */
export interface ReplaceOptions {
  /** The number of the document. Default: one more than the number of the current document. */
  readonly version?: number
}

/**
 * Applies a document. Throws `INVALID_RULES` with all its mistakes as `cause`, `INVALID_OPTION`, `UNKNOWN_OPTION`.
 * @example
 * const rules = createRules({ policies: [{ name: 'api', key: 'ip', limits: [{ quota: 60, window: '1m' }] }] })
 * app.use(rateLimit({ rules }))
 * rules.replace(tightened)
 */
export function createRules<Input = unknown>(document: RulesDocument, options: RulesOptions<Input> = {}): Rules<Input> {
  options = knownOptions('createRules', options, RULES_OPTIONS)
  validateRulesOptions(options)
  const compiled = compileRules(document, options)
  warnOfRest(compiled)
  return new Rules(compiled, options)
}

/** Throws `INVALID_OPTION` for wrong options of rules. */
export function validateRulesOptions({ attributes, address, ipv6Subnet }: RulesOptions<never>): void {
  if (attributes !== undefined && typeof attributes !== 'function')
    refuse('attributes', 'a function that returns the attributes of a request', attributes)
  if (address !== undefined && typeof address !== 'function')
    refuse('address', 'a function that returns the address of a client', address)
  if (ipv6Subnet !== undefined) addressKeyer(ipv6Subnet)
}
