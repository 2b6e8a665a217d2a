import { type DynamicModule, Module, type ModuleMetadata, type Provider, type Type } from '@nestjs/common'
import { ApplicationConfig, ModulesContainer } from '@nestjs/core'
import { boolean, knownOptions, refuse } from '../../src/util/validate.ts'
import type { MaybePromise } from '../../src/util/maybe-promise.ts'
import { RateLimitFilter } from './guard.ts'
import type { NestRequest, NestResponse } from './platform.ts'
import { RateLimits } from './rate-limits.ts'
import type { RateLimitOptions } from './context-limiter.ts'

/** Where the module can be used. */
export interface ModuleScope {
  /** Makes `RateLimitGuard` available in all modules. Default true. */
  readonly global?: boolean
}

/** Creates the options of the module, for `useClass` and `useExisting`. */
export interface RateLimitOptionsFactory {
  /** Returns the options of the module, or a promise of them. */
  createRateLimitOptions(): MaybePromise<RateLimitOptions>
}

/** Options of {@link RateLimitModule.forRootAsync}: one of `useFactory`, `useClass` and `useExisting`. */
export interface RateLimitAsyncOptions extends ModuleScope, Pick<ModuleMetadata, 'imports'> {
  /** The providers that `useFactory` receives. */
  readonly inject?: NonNullable<Extract<Provider, { inject?: unknown }>['inject']>
  /** Returns the options, or a promise of them. It receives the providers of `inject`. */
  readonly useFactory?: (...injected: never[]) => MaybePromise<RateLimitOptions>
  /** A class that creates the options. Nest creates an instance for the module. */
  readonly useClass?: Type<RateLimitOptionsFactory>
  /** A class whose instance exists already as a provider. */
  readonly useExisting?: Type<RateLimitOptionsFactory>
}

const OPTIONS = Symbol('sluice: options of RateLimitModule')
const ASYNC_OPTIONS = ['global', 'imports', 'inject', 'useFactory', 'useClass', 'useExisting']

/**
 * Provides the limits of {@link RateLimitGuard}. Import it once. It limits nothing by itself: without a guard the process warning
 * `SLUICE_NO_GUARD` is emitted when the app starts.
 * @example
 * @Module({
 *   imports: [RateLimitModule.forRoot({ keyer: byIP, limits: perMinute(100) })],
 *   providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
 * })
 * class AppModule {}
 */
export class RateLimitModule {
  /**
   * Creates the module from options. The options of a wrong or unknown name or value are reported when the app starts, with a
   * `SluiceError`.
   */
  static forRoot<Request = NestRequest, Response = NestResponse>(
    options: RateLimitOptions<Request, Response> & ModuleScope,
  ): DynamicModule {
    if (typeof options !== 'object' || options === null)
      refuse('RateLimitModule.forRoot', 'options such as { keyer, limits }', options)
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
  static forRootAsync(options: RateLimitAsyncOptions): DynamicModule {
    knownOptions('RateLimitModule.forRootAsync', options, ASYNC_OPTIONS)
    return moduleOf(options, providersOf(options))
  }
}

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
    exports: [RateLimits],
  }
}

/** Filters run in the reverse order, so that the first one is used when no other handles an exception. */
const LIMITS: Provider = {
  provide: RateLimits,
  inject: [OPTIONS, ModulesContainer, ApplicationConfig],
  useFactory(options: RateLimitOptions, modules: ModulesContainer, config: ApplicationConfig) {
    config.getGlobalFilters().unshift(new RateLimitFilter())
    return new RateLimits(options, modules)
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
