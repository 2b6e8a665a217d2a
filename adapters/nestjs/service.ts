import type { ExecutionContext, OnApplicationBootstrap, OnModuleInit } from '@nestjs/common'
import { type ApplicationConfig, MetadataScanner, type ModulesContainer } from '@nestjs/core'
import { reasonOf, SluiceError } from '../../src/util/errors.ts'
import { refuse } from '../../src/util/validate.ts'
import { withChecks } from '../../src/http/checking.ts'
import { define } from '../../src/limiter/keyers.ts'
import { LIMITER_OPTIONS } from '../../src/limiter/options.ts'
import { guardsOf, limitsOf, type OwnLimits, refuseLostLimits } from './decorators.ts'
import { currentExchange } from './platform.ts'
import { nameClasses } from './class-names.ts'
import { type ContextLimiter, createContextLimiter, type RateLimitOptions } from './adapter.ts'
import { without } from '../../src/http/options.ts'

/** Options of the module's limiter that also apply to the limits of a class or a handler. */
const KEPT: ReadonlySet<string> = new Set(['store', 'lease', 'receiptFor', 'receiptSecret', 'onSlotLost'])
/** Options of the module's limiter that do not apply to the limits of a class or a handler. */
const REPLACED = LIMITER_OPTIONS.filter((name) => !KEPT.has(name))

/** The limiter of a call, and the `cost` of its handler or class. */
interface Applied {
  readonly limiter: ContextLimiter
  readonly own: OwnLimits | undefined
}

/**
 * The limits of the module, of classes and of handlers. The constructor of a custom guard passes it to `RateLimitGuard`.
 * @example
 * class OwnGuard extends RateLimitGuard {
 *   constructor(limits: RateLimitService, readonly users: Users) {
 *     super(limits)
 *   }
 * }
 */
export class RateLimitService implements OnModuleInit, OnApplicationBootstrap {
  readonly #options: RateLimitOptions
  readonly #modules: ModulesContainer
  readonly #common: ContextLimiter
  readonly #limiters = new WeakMap<OwnLimits, ContextLimiter>()
  readonly #config: ApplicationConfig
  /** The places of limits that only a global guard applies. */
  readonly #unguarded: string[] = []
  #isUsed = false

  /** Throws `SluiceError` for a wrong or unknown option of the module. */
  constructor(options: RateLimitOptions, modules: ModulesContainer, config: ApplicationConfig) {
    this.#options = options
    this.#modules = modules
    this.#config = config
    this.#common = createContextLimiter(withOwnCosts(options))
  }

  /** Notes that there is a guard. */
  use(): void {
    this.#isUsed = true
  }

  /** Returns the limits of a call: the limits of its handler, otherwise of its class, otherwise of the module. */
  appliedTo(context: ExecutionContext): Applied {
    const own = limitsOf(context.getHandler()) ?? limitsOf(context.getClass())
    return { limiter: own === undefined ? this.#common : this.#limiterOf(own), own }
  }

  /** Creates the limits of all classes and handlers, so that mistakes are found before the first request. */
  onModuleInit(): void {
    const types: Parameters<typeof limitsOf>[0][] = []
    for (const { controllers, providers } of this.#modules.values()) {
      for (const { metatype } of [...controllers.values(), ...providers.values()])
        if (typeof metatype === 'function') types.push(metatype as (typeof types)[number])
    }
    nameClasses(types)
    for (const type of types) this.#prepare(type)
  }

  /** Warns if there is no guard, or none for a handler with limits, unless checks are off. */
  onApplicationBootstrap(): void {
    const [place] = this.#unguarded
    if (this.#mayRunEverywhere() || (this.#isUsed && place === undefined)) return
    withChecks(this.#options.checks, (checks) => checks.warnOfNoGuard(this.#isUsed ? place : undefined))
  }

  /** Returns true if a guard may run for all handlers: as a provider, or as a global guard that Nest creates for each request. */
  #mayRunEverywhere(): boolean {
    const isProvided = [...this.#modules.values()].some(
      ({ providers, injectables }) =>
        [...providers.values()].some(({ metatype }) => isGuard(metatype)) ||
        [...injectables.values()].some((each) => !each.isDependencyTreeStatic() && isGuard(each.metatype)),
    )
    return isProvided || this.#config.getGlobalGuards().some(isGuard)
  }

  #prepare(type: Parameters<typeof limitsOf>[0]): void {
    const prototype = (type as { readonly prototype?: object }).prototype
    if (prototype !== undefined) refuseLostLimits(prototype)
    const methods = prototype === undefined ? [] : new MetadataScanner().getAllMethodNames(prototype)
    const handlers = methods.map((name) => (prototype as Record<string, typeof type>)[name]!)
    for (const each of [type, ...handlers]) {
      const own = limitsOf(each)
      if (own === undefined) continue
      this.#limiterOf(own)
      if (![...guardsOf(type), ...(each === type ? handlers.flatMap(guardsOf) : guardsOf(each))].some(isGuard))
        this.#unguarded.push(own.place())
    }
  }

  #limiterOf(own: OwnLimits): ContextLimiter {
    const limiter = this.#limiters.get(own) ?? this.#create(own)
    this.#limiters.set(own, limiter)
    return limiter
  }

  #create({ options, place }: OwnLimits): ContextLimiter {
    try {
      return createContextLimiter(this.#optionsOf(options, place()))
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      throw new SluiceError(error.code, `@RateLimit of ${place()}: ${reasonOf(error)}`, { cause: error })
    }
  }

  #optionsOf(own: OwnLimits['options'], place: string): RateLimitOptions {
    const { keyer } = this.#options
    const inherited = without(this.#options, ['limiter', ...replacedBy(own)])
    const common = without(inherited, LIMITER_OPTIONS)
    if (own.limiter !== undefined) return { ...common, ...own } as RateLimitOptions
    const stored = { ...without(inherited, REPLACED), name: place }
    if (own.rules !== undefined) return { ...stored, ...own } as RateLimitOptions
    if (own.limits !== undefined)
      return { ...stored, ...(keyer !== undefined && { keyer }), ...own } as unknown as RateLimitOptions
    this.#refuseWithoutLimits(own)
    return { ...common, ...without(own, ['cost']), limiter: this.#common.limiter } as RateLimitOptions
  }

  #refuseWithoutLimits(own: OwnLimits['options']): void {
    for (const name of LIMITER_OPTIONS) {
      const given = own[name as keyof typeof own]
      if (given === undefined) continue
      if (name !== 'cost') refuse(name, 'nothing unless there are `limits` beside it', given)
      if (typeof given !== 'function') refuse('cost', 'a function from a request and a limit to a number', given)
      if (this.#options.limits === undefined)
        refuse('cost', '`limits` beside it, since the limits of the module come from a limiter or from rules', given)
    }
  }
}

/** Returns true for a class of guards that apply `@RateLimit`, and for an instance. */
function isGuard(guard: unknown): boolean {
  const methods: unknown = typeof guard === 'function' ? guard.prototype : guard
  return typeof methods === 'object' && methods !== null && 'shouldSkip' in methods
}

/** Returns the names of options of the module that cannot be combined with the own options. */
function replacedBy(own: OwnLimits['options']): readonly string[] {
  const { onDenied, message, statusCode, count, refundWhen } = own
  const replaced: string[] = []
  if (onDenied !== undefined) replaced.push('message', 'statusCode')
  if (message !== undefined || statusCode !== undefined) replaced.push('onDenied')
  if (count !== undefined) replaced.push('refundWhen')
  if (refundWhen !== undefined) replaced.push('count')
  return replaced
}

/** Returns options whose `cost` uses the `cost` of a handler or class that has no limits of its own. */
function withOwnCosts(options: RateLimitOptions): RateLimitOptions {
  if (typeof options !== 'object' || options === null || options.limits === undefined) return options
  const { cost: common } = options
  if (common !== undefined && typeof common !== 'function') return options
  const cost: NonNullable<typeof common> = (request, limit) => {
    const own = currentExchange()?.cost ?? common
    return own === undefined ? 1 : own(request as never, limit)
  }
  return { ...options, cost: define('cost of handlers', [common], cost) } as RateLimitOptions
}
