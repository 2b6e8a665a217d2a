import {
  type ArgumentsHost,
  type CanActivate,
  Catch,
  type DynamicModule,
  type ExceptionFilter,
  type ExecutionContext,
  Inject,
  Module,
  type ModuleMetadata,
  type OnModuleInit,
  type Provider,
  type Type,
} from '@nestjs/common'
import { ApplicationConfig, ModulesContainer } from '@nestjs/core'
import { SluiceError } from '../../src/util/errors.ts'
import { refuseLimiter } from '../../src/http/options.ts'
import { boolean, isTrue, knownOptions, refuse } from '../../src/util/validate.ts'
import type { MaybePromise } from '../../src/util/maybe-promise.ts'
import { type NestRequest, type NestResponse, requestOf, responseOf, send } from './platform.ts'
import { RateLimitService } from './service.ts'
import { createContextLimiter, type RateLimitOptions } from './adapter.ts'
import { RateLimitException } from './exceptions.ts'
import { isSkipped } from './decorators.ts'

/**
 * Sends the problem details of a denied HTTP request, as `application/problem+json`, or as plain text to a client that accepts no
 * JSON. `RateLimitModule` adds it after all filters of the application, so that each of them can send another body. Without it Nest
 * sends the problem details as `application/json`.
 * @example app.useGlobalFilters(new RateLimitFilter()) // for guards made by `createRateLimitGuard`, without the module
 */
export class RateLimitFilter implements ExceptionFilter<RateLimitException> {
  /** Called by Nest for each denial. */
  catch(exception: RateLimitException, host: ArgumentsHost): void {
    // The driver of GraphQL sends its errors.
    if (host.getType<string>() !== 'http') throw exception
    const { status, type, body } = exception.denial
    send(host.switchToHttp().getResponse<NestResponse>(), status, type, body)
  }
}

Catch(RateLimitException)(RateLimitFilter)

/**
 * Limits the calls of handlers by the options of `RateLimitModule` and by the decorators `RateLimit` and `SkipRateLimit`. Throws a
 * `RateLimitException` for a denied call; in gateways a `WsException`, in microservices an `RpcException`. The decision is on
 * `request.rateLimit`. Extend it to change how it reads a call.
 * @example
 * @Module({
 *   imports: [RateLimitModule.forRoot({ keyer: byIP, limits: perMinute(100) })],
 *   providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
 * })
 * class AppModule {}
 */
export class RateLimitGuard implements CanActivate {
  readonly #limits: RateLimitService

  constructor(limits: RateLimitService) {
    this.#limits = limits
    limits.use()
  }

  /** Called by Nest for each call. Throws the exception of a denial. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (isTrue('shouldSkip', await this.shouldSkip(context))) return true
    const { limiter, own } = this.#limits.appliedTo(context)
    const request = this.getRequest(context)
    await limiter.admit({ context, request, response: this.getResponse(context), cost: own?.options.cost })
    return true
  }

  /**
   * Returns true for calls that are not counted and get no headers. Default: those with `SkipRateLimit`. Values other than true and false are handled as for
   * the option `skip`.
   */
  protected shouldSkip(context: ExecutionContext): MaybePromise<boolean> {
    return isSkipped(context)
  }

  /** Returns the object that keyers and other functions receive. Throws `NOT_APPLICABLE` for a context without a known request. */
  protected getRequest(context: ExecutionContext): object {
    return requestOf(context)
  }

  /** Returns the response that gets the headers; `undefined` if there is none. */
  protected getResponse(context: ExecutionContext): NestResponse | undefined {
    return responseOf(context)
  }
}

// This does the same as `@Inject` before the parameter, without metadata from the compiler.
Inject(RateLimitService)(RateLimitGuard, undefined, 0)

/**
 * Creates a guard with its own limits, without the module or in addition to it, such as one before the guard that authenticates a request. It ignores
 * `RateLimit` decorators, but respects `SkipRateLimit`. Throws `SluiceError` for a wrong or unknown option.
 * @example
 * @UseGuards(createRateLimitGuard({ keyer: byIP, limits: perMinute(20) }), AuthGuard)
 * @Controller('account')
 * class AccountController {}
 */
export function createRateLimitGuard<Request = NestRequest, Response = NestResponse>(
  options: RateLimitOptions<Request, Response>,
): CanActivate {
  const limiter = createContextLimiter(options as unknown as RateLimitOptions)
  return {
    async canActivate(context) {
      if (!isSkipped(context))
        await limiter.admit({ context, request: requestOf(context), response: responseOf(context) })
      return true
    },
  }
}

/** Where the module can be used. */
export interface ModuleScope {
  /** Makes `RateLimitGuard` available in all modules. Default true. */
  readonly global?: boolean
}

/** Creates the options of the module, for `useClass` and `useExisting`. */
export interface RateLimitOptionsFactory<Request = NestRequest, Response = NestResponse> {
  /** Returns the options of the module, or a promise of them. */
  createRateLimitOptions(): MaybePromise<RateLimitOptions<Request, Response>>
}

/** Options of {@link RateLimitModule.forRootAsync}: one of `useFactory`, `useClass` and `useExisting`. */
export interface RateLimitAsyncOptions<Request = NestRequest, Response = NestResponse>
  extends ModuleScope, Pick<ModuleMetadata, 'imports'> {
  /** The providers that `useFactory` receives. */
  readonly inject?: NonNullable<Extract<Provider, { inject?: unknown }>['inject']>
  /** Returns the options, or a promise of them. It receives the providers of `inject`. */
  readonly useFactory?: (...injected: never[]) => MaybePromise<RateLimitOptions<Request, Response>>
  /** A class that creates the options. Nest creates an instance for the module. */
  readonly useClass?: Type<RateLimitOptionsFactory<Request, Response>>
  /** A class whose instance exists already as a provider. */
  readonly useExisting?: Type<RateLimitOptionsFactory<Request, Response>>
}

const OPTIONS = Symbol('sluice: options of RateLimitModule')
const ASYNC_OPTIONS = ['global', 'imports', 'inject', 'useFactory', 'useClass', 'useExisting']

/**
 * Provides the limits of {@link RateLimitGuard}. Import it once. The module itself limits nothing. Without a guard, the process warning `SLUICE_NO_GUARD` is
 * emitted when the app starts.
 * @example
 * @Module({
 *   imports: [RateLimitModule.forRoot({ keyer: byIP, limits: perMinute(100) })],
 *   providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
 * })
 * class AppModule {}
 */
export class RateLimitModule implements OnModuleInit {
  readonly #modules: ModulesContainer

  constructor(modules: ModulesContainer) {
    this.#modules = modules
  }

  /** Throws `NOT_APPLICABLE` if each request would have limits of its own. */
  onModuleInit(): void {
    for (const { providers } of this.#modules.values()) {
      const limits = providers.get(RateLimitService)
      if (limits !== undefined && !limits.isDependencyTreeStatic() && !limits.isDependencyTreeDurable())
        throw new SluiceError(
          'NOT_APPLICABLE',
          'RateLimitModule.forRootAsync: the options depend on a provider that Nest creates for each request, so each request would have ' +
            'limits of its own and none would be denied. For limits that depend on the request, let `limits` be a function: `limits: (request) => …`.',
        )
    }
  }

  /**
   * Creates the module from options. A wrong or unknown option throws a `SluiceError` when the app starts.
   */
  static forRoot<Request = NestRequest, Response = NestResponse>(
    options: RateLimitOptions<Request, Response> & ModuleScope,
  ): DynamicModule {
    if (typeof options !== 'object' || options === null)
      refuse('RateLimitModule.forRoot', 'options such as { keyer, limits }', options)
    refuseLimiter('RateLimitModule.forRoot', options)
    const { global, ...others } = options
    return moduleOf({ global }, [{ provide: OPTIONS, useValue: others }])
  }

  /**
   * Creates the module from options that depend on other providers.
   * @example
   * RateLimitModule.forRootAsync({
   *   imports: [ConfigModule],
   *   inject: [ConfigService],
   *   useFactory: (config: ConfigService) => ({ keyer: byIP, limits: perMinute(config.get('LIMIT')) }),
   * })
   */
  static forRootAsync<Request = NestRequest, Response = NestResponse>(
    given: RateLimitAsyncOptions<Request, Response>,
  ): DynamicModule {
    const options = knownOptions(
      'RateLimitModule.forRootAsync',
      given,
      ASYNC_OPTIONS,
    ) as unknown as RateLimitAsyncOptions
    return moduleOf(options, providersOf(options))
  }
}

Inject(ModulesContainer)(RateLimitModule, undefined, 0)
Module({})(RateLimitModule)

function moduleOf(
  { global = true, imports }: { global?: boolean | undefined; imports?: ModuleMetadata['imports'] },
  options: Provider[],
): DynamicModule {
  return {
    module: RateLimitModule,
    global: boolean('global', global),
    imports: imports ?? [],
    providers: [...options, LIMITS],
    exports: [RateLimitService],
  }
}

/** The provider of the service. It adds the filter as the first one: filters run in reverse order, so it is used if no other filter handles an exception. */
const LIMITS: Provider = {
  provide: RateLimitService,
  inject: [OPTIONS, ModulesContainer, ApplicationConfig],
  useFactory(options: RateLimitOptions, modules: ModulesContainer, config: ApplicationConfig) {
    config.getGlobalFilters().unshift(new RateLimitFilter())
    return new RateLimitService(options, modules, config)
  },
}

function providersOf({ useFactory, useClass, useExisting, inject = [] }: RateLimitAsyncOptions): Provider[] {
  if (useFactory !== undefined) return [{ provide: OPTIONS, useFactory, inject }]
  const factory = useExisting ?? useClass
  if (factory === undefined)
    refuse('RateLimitModule.forRootAsync', 'one of useFactory, useClass and useExisting', undefined)
  const create = (created: RateLimitOptionsFactory): MaybePromise<RateLimitOptions> => created.createRateLimitOptions()
  const options: Provider = { provide: OPTIONS, useFactory: create, inject: [factory] }
  return useExisting === undefined ? [factory, options] : [options]
}
