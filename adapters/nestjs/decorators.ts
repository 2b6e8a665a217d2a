import { type ExecutionContext, SetMetadata } from '@nestjs/common'
import { Reflector } from '@nestjs/core'
import type { Absent, LimiterOption } from '../../src/http/options.ts'
import type { LimiterOptions, RulesLimiterOptions } from '../../src/limiter/options.ts'
import type { Limiter } from '../../src/limiter/limiter.ts'
import { madeOnce } from '../../src/util/copies.ts'
import { boolean, refuse } from '../../src/util/validate.ts'
import { SluiceError } from '../../src/util/errors.ts'
import type { NestRequest, NestResponse } from './platform.ts'
import type { ResponseOptions } from './adapter.ts'
import { nameOf } from './class-names.ts'

/**
 * The options of {@link RateLimit}. With `limits`, `limiter` or `rules`, they replace the limits of the module. The keyer, the store with its lease and
 * receipts, `onSlotLost` and the options of the HTTP responses of the module are used unless these options have their own. Without any of the three, the
 * limits of the module apply, with this `cost` and these options of the HTTP responses.
 */
export type OwnRateLimitOptions<Request = NestRequest, Response = NestResponse> = ResponseOptions<Request, Response> &
  (
    | (Omit<LimiterOptions<Request>, 'keyer'> &
        Partial<Pick<LimiterOptions<Request>, 'keyer'>> &
        Absent<'limiter' | 'rules'>)
    | (RulesLimiterOptions<Request> & Absent<'limiter'>)
    | ({
        /** A limiter, or several limiters as a `stack`. */
        readonly limiter: Limiter<Request>
      } & Absent<LimiterOption>)
    | (Pick<LimiterOptions<Request>, 'cost'> & Absent<Exclude<LimiterOption, 'cost'> | 'limiter'>)
  )

/** The options of a class or a handler. */
export interface OwnLimits {
  readonly options: OwnRateLimitOptions
  /** Returns the name of the class or the handler, such as `UsersController` or `UsersController.create`. */
  place(): string
}

const LIMITS = 'sluice:rate-limit'
const SKIP = 'sluice:skip-rate-limit'
const reflector = new Reflector()

/** A decorator of classes and methods. */
export type Decorator = ClassDecorator & MethodDecorator

/**
 * Gives a controller, a resolver, a gateway, or one of their handlers its own limits. They replace the limits of the module. The decorator of a handler
 * replaces the decorator of its class. All handlers of a class count together under the limits of the class. To count each handler, add `byHandler` to the keyer.
 * Throws `INVALID_OPTION`. Other mistakes in the options are thrown when the app starts.
 * @example
 * @Controller('users')
 * class UsersController {
 *   @Post()
 *   @RateLimit({ limits: perMinute(5) })
 *   create() {}
 * }
 */
export function RateLimit<Request = NestRequest, Response = NestResponse>(
  options: OwnRateLimitOptions<Request, Response>,
): Decorator {
  if (typeof options !== 'object' || options === null) refuse('@RateLimit', 'options such as { limits }', options)
  return function limit(target: object, method?: string | symbol, descriptor?: PropertyDescriptor) {
    const place = (): string => placeOf(target, method)
    const decorated = (descriptor?.value ?? target) as object
    if (Reflect.getOwnPropertyDescriptor(decorated, LIMITED) !== undefined)
      throw new SluiceError('INVALID_OPTION', `@RateLimit is used twice on ${place()}. Use it once, with all limits.`)
    Object.defineProperty(decorated, LIMITED, { value: true })
    if (method !== undefined) madeOnce(decoratedMethods, target, () => []).push(method)
    const own: OwnLimits = { options: options as unknown as OwnRateLimitOptions, place }
    SetMetadata(LIMITS, own)(target, method!, descriptor!)
  }
}

/** The methods with limits, by prototype. */
const decoratedMethods = new WeakMap<object, (string | symbol)[]>()

/** Throws `NOT_APPLICABLE` if another decorator has replaced a method with limits. Nest reads the limits from the method. */
export function refuseLostLimits(prototype: object): void {
  for (const method of decoratedMethods.get(prototype) ?? []) {
    const handler = Object.getOwnPropertyDescriptor(prototype, method)?.value as Parameters<typeof limitsOf>[0]
    if (typeof handler !== 'function' || limitsOf(handler) !== undefined) continue
    throw new SluiceError(
      'NOT_APPLICABLE',
      `@RateLimit of ${placeOf(prototype, method)} has no effect, because another decorator has replaced the method. Write @RateLimit above that decorator.`,
    )
  }
}

const LIMITED = Symbol('sluice: has limits')

function placeOf(target: object, method: string | symbol | undefined): string {
  return nameOf(typeof target === 'function' ? target : target.constructor, method)
}

/**
 * Excludes a class or a handler from the limits of {@link RateLimitGuard} and of guards made by `createRateLimitGuard`. `false` on a handler undoes the
 * decorator of its class. A handler with its own limits in a skipped class is limited. Throws `INVALID_OPTION`.
 * @example
 * @SkipRateLimit()
 * @Controller('health')
 * class HealthController {}
 */
export function SkipRateLimit(skip = true): Decorator {
  return SetMetadata(SKIP, boolean('@SkipRateLimit', skip)) as Decorator
}

/** Returns true if the nearest decorator of a call is `SkipRateLimit`. */
export function isSkipped(context: ExecutionContext): boolean {
  const handler = context.getHandler()
  const skipped = reflector.get<boolean | undefined>(SKIP, handler)
  if (skipped !== undefined) return skipped
  if (limitsOf(handler) !== undefined) return false
  return reflector.get<boolean | undefined>(SKIP, context.getClass()) === true
}

/** Returns the limits of a class or a handler. */
export function limitsOf(target: Parameters<Reflector['get']>[1]): OwnLimits | undefined {
  return reflector.get<OwnLimits | undefined>(LIMITS, target)
}

/** Returns the guards of `@UseGuards` on a class or a handler. */
export function guardsOf(target: Parameters<Reflector['get']>[1]): readonly unknown[] {
  return reflector.get<readonly unknown[] | undefined>('__guards__', target) ?? []
}
