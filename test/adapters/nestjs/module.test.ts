import { setTimeout as pause } from 'node:timers/promises'
import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  Inject,
  Injectable,
  type Provider,
  Scope,
  UnauthorizedException,
  UseGuards,
} from '@nestjs/common'
import { APP_GUARD } from '@nestjs/core'
import { describe, expect, test } from 'vitest'
import {
  type Decorator,
  RateLimit,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitOptions,
  RateLimitService,
} from '../../../adapters/nestjs/index.ts'
import { everyone, fixedWindow } from '../../../src/index.ts'
import { dial, until, warningsOf } from '../../support/http.ts'
import { controllers, decorateClass, moduleOf, platforms, start, type StartOptions, statuses } from './app.ts'

const of = (quota: number): ReturnType<typeof fixedWindow> => fixedWindow({ quota, window: '1h' })
const guard = { provide: APP_GUARD, useClass: RateLimitGuard }

class OtherGuard implements CanActivate {
  canActivate(): boolean {
    return true
  }
}

/** A module with a provider for the quota. */
class Settings {
  readonly quota = 2
}
const settings = moduleOf({ providers: [Settings], exports: [Settings] })

class OptionsFactory {
  readonly #settings: Settings
  constructor(given: Settings) {
    this.#settings = given
  }
  createRateLimitOptions(): RateLimitOptions {
    return { keyer: everyone, limits: of(this.#settings.quota) }
  }
}
Inject(Settings)(OptionsFactory, undefined, 0)

describe('forRootAsync', () => {
  const useFactory = async (given: Settings): Promise<RateLimitOptions> => ({
    keyer: everyone,
    limits: of(given.quota),
  })
  const factories = moduleOf({ imports: [settings], providers: [OptionsFactory], exports: [OptionsFactory] })

  test.each([
    ['useFactory', { imports: [settings], inject: [Settings], useFactory }],
    ['useClass', { imports: [settings], useClass: OptionsFactory }],
    ['useExisting', { imports: [factories], useExisting: OptionsFactory }],
  ])('takes options from other providers: %s', async (_, options) => {
    const app = moduleOf({
      imports: [RateLimitModule.forRootAsync(options)],
      controllers: controllers({}),
      providers: [guard],
    })
    expect(await statuses(await start(app), '/dogs/only', '/dogs/only', '/dogs/only')).toEqual([200, 200, 429])
  })

  test('refuses unknown options, and none of the three', () => {
    const code = (name: string): unknown => expect.objectContaining({ code: name })
    expect(() => RateLimitModule.forRootAsync({ useFactroy: useFactory } as never)).toThrow(code('UNKNOWN_OPTION'))
    expect(() => RateLimitModule.forRootAsync({})).toThrow(code('INVALID_OPTION'))
  })

  test.each([false, true])(
    'fails the start of the app when each request would have limits of its own, unless they are durable: %s',
    async (durable) => {
      class PerRequest extends Settings {}
      Injectable({ scope: Scope.REQUEST, durable })(PerRequest)
      const perRequest = moduleOf({ providers: [PerRequest], exports: [PerRequest] })
      const limits = RateLimitModule.forRootAsync({ imports: [perRequest], inject: [PerRequest], useFactory })
      const [cats] = controllers({})
      const app = moduleOf({ imports: [limits], controllers: [decorateClass(cats!, UseGuards(RateLimitGuard))] })
      const started = start(app)
      if (durable) await expect(started).resolves.toMatch('http')
      else await expect(started).rejects.toMatchObject({ code: 'NOT_APPLICABLE' })
    },
  )

  test('fails the start of the app when it makes wrong options', async () => {
    const wrong = (): RateLimitOptions => ({ keyer: everyone, limits: of(1), headers: 'draft-5' as never })
    const app = moduleOf({ imports: [RateLimitModule.forRootAsync({ useFactory: wrong })], providers: [guard] })
    await expect(start(app)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('forRoot', () => {
  test('refuses what is no option object', () => {
    const code = expect.objectContaining({ code: 'INVALID_OPTION' }) as Error
    expect(() => RateLimitModule.forRoot(undefined as never)).toThrow(code)
    expect(() => RateLimitModule.forRoot({ keyer: everyone, limits: of(1), global: 1 } as never)).toThrow(code)
  })

  test('makes the guard available in other modules, unless `global` is false', async () => {
    const [cats] = controllers({})
    const other = moduleOf({ controllers: [decorateClass(cats!, UseGuards(RateLimitGuard))] })
    const options = { keyer: everyone, limits: of(1) }
    const everywhere = moduleOf({ imports: [RateLimitModule.forRoot(options), other] })
    expect(await statuses(await start(everywhere), '/cats/first', '/cats/second')).toEqual([200, 429])
    const local = moduleOf({ imports: [RateLimitModule.forRoot({ ...options, global: false }), other] })
    await expect(start(local)).rejects.toThrow(/RateLimitService/)
  })

  test('causes a warning when there is no guard', async () => {
    const imports = [RateLimitModule.forRoot({ keyer: everyone, limits: of(1) })]
    expect(await warningsOf(() => start(moduleOf({ imports })))).toEqual(['SLUICE_NO_GUARD'])
    expect(await warningsOf(() => start(moduleOf({ imports, providers: [guard] })))).toEqual([])
    const scoped = { ...guard, scope: Scope.REQUEST }
    expect(await warningsOf(() => start(moduleOf({ imports, providers: [scoped] })))).toEqual([])
    const unchecked = [RateLimitModule.forRoot({ keyer: everyone, limits: of(1), checks: false })]
    expect(await warningsOf(() => start(moduleOf({ imports: unchecked })))).toEqual([])
  })

  const limited = RateLimit({ limits: of(1) })
  const guarded = UseGuards(RateLimitGuard) as Decorator
  const useGuard: StartOptions['prepare'] = (app) =>
    void app.useGlobalGuards(new RateLimitGuard(app.get(RateLimitService, { strict: false })))

  test.each<[string, readonly string[], Parameters<typeof controllers>[0], Provider[]?, StartOptions['prepare']?]>([
    ['of a handler without a guard', ['SLUICE_NO_GUARD'], { first: [limited] }],
    ['of a class without a guard', ['SLUICE_NO_GUARD'], { cats: [limited] }],
    ['of a handler with a guard', [], { first: [limited, guarded] }],
    ['of a handler in a class with a guard', [], { cats: [guarded], first: [limited] }],
    ['of a class whose handlers have a guard', [], { cats: [limited], first: [guarded] }],
    ['of a handler with another guard', ['SLUICE_NO_GUARD'], { first: [limited, UseGuards(OtherGuard) as Decorator] }],
    ['under a global guard', [], { first: [limited] }, [guard]],
    ['under a guard of each request', [], { first: [limited] }, [{ ...guard, scope: Scope.REQUEST } as Provider]],
    ['with a guard that others use', [], { first: [limited] }, [RateLimitGuard]],
    ['under a guard of the app', [], { first: [limited] }, [], useGuard],
  ])('warns of limits that no guard applies: %s', async (_, codes, own, providers = [], prepare = () => undefined) => {
    const imports = [RateLimitModule.forRoot({ keyer: everyone, limits: of(1) })]
    class Guarded {}
    decorateClass(Guarded, Controller('guarded'), UseGuards(RateLimitGuard))
    const module = moduleOf({ imports, controllers: [Guarded, ...controllers(own)], providers })
    expect(await warningsOf(() => start(module, { prepare }))).toEqual(codes)
  })
})

describe.each(Object.keys(platforms))('the guard on %s', (platform) => {
  /** Starts an app with a quota of one, and these providers. */
  function serveWith(providers: readonly Provider[], keyer: unknown = everyone): Promise<string> {
    const imports = [RateLimitModule.forRoot({ keyer: keyer as typeof everyone, limits: of(1) })]
    return start(moduleOf({ imports, controllers: controllers({}), providers: [...providers] }), { platform })
  }

  class AuthGuard implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      const request = context.switchToHttp().getRequest<{ headers: Record<string, string>; user?: unknown }>()
      if (request.headers['x-user'] === undefined) throw new UnauthorizedException()
      request.user = { id: request.headers['x-user'] }
      return true
    }
  }

  test('runs after a guard before it, whose user the keyer reads', async () => {
    const keyer = ({ user }: { user: { id: string } }): string => user.id
    const url = await serveWith([{ provide: APP_GUARD, useClass: AuthGuard }, guard], keyer)
    const ask = async (user?: string): Promise<number> =>
      (await fetch(`${url}/dogs/only`, { headers: user === undefined ? {} : { 'x-user': user } })).status
    expect([await ask('a'), await ask('a'), await ask('b'), await ask()]).toEqual([200, 429, 200, 401])
  })

  test('can be extended, with providers of the application', async () => {
    class Exempt {
      readonly user = 'admin'
    }
    class OwnGuard extends RateLimitGuard {
      declare readonly exempt: Exempt
      protected override shouldSkip(context: ExecutionContext): boolean {
        const { headers } = this.getRequest(context) as { headers: Record<string, string> }
        return headers['x-user'] === this.exempt.user
      }
    }
    Injectable()(OwnGuard)
    Inject(Exempt)(OwnGuard.prototype, 'exempt')
    const url = await serveWith([Exempt, { provide: APP_GUARD, useClass: OwnGuard }])
    const admin = { headers: { 'x-user': 'admin' } }
    const seen = [await fetch(`${url}/dogs/only`, admin), await fetch(`${url}/dogs/only`, admin)]
    expect(seen.map(({ status }) => status)).toEqual([200, 200])
    expect(await statuses(url, '/dogs/only', '/dogs/only')).toEqual([200, 429])
  })

  test('counts each call, also when `getRequest` returns one user for many of them', async () => {
    const users = new Map<string, object>()
    class OwnGuard extends RateLimitGuard {
      protected override getRequest(context: ExecutionContext): object {
        const { headers } = super.getRequest(context) as { headers: Record<string, string> }
        const id = headers['x-user']!
        if (!users.has(id)) users.set(id, { id })
        return users.get(id)!
      }
    }
    Injectable()(OwnGuard)
    const url = await serveWith([{ provide: APP_GUARD, useClass: OwnGuard }], ({ id }: { id: string }) => id)
    const ask = async (user: string): Promise<unknown> => {
      const { status, headers } = await fetch(`${url}/dogs/only`, { headers: { 'x-user': user } })
      return [status, headers.get('ratelimit')]
    }
    expect(await ask('a')).toEqual([200, '"1-per-1h";r=0;t=3600'])
    expect(await ask('a')).toEqual([429, '"1-per-1h";r=0;t=3600'])
    expect(await ask('b')).toEqual([200, '"1-per-1h";r=0;t=3600'])
  })

  test('calls no handler for a client that leaves before `shouldSkip` resolves', async () => {
    let [asked, ran] = [0, 0]
    let resolve = (_skips: boolean): void => {}
    class OwnGuard extends RateLimitGuard {
      protected override shouldSkip(): Promise<boolean> {
        asked++
        return new Promise((resolves) => (resolve = resolves))
      }
    }
    Injectable()(OwnGuard)
    class LastGuard implements CanActivate {
      canActivate(): boolean {
        return ++ran > 0
      }
    }
    const last = { provide: APP_GUARD, useClass: LastGuard }
    const url = await serveWith([{ provide: APP_GUARD, useClass: OwnGuard }, last])
    const client = await dial({ url }, '/dogs/only')
    await until(() => asked === 1)
    client.destroy()
    await pause(50)
    resolve(false)
    await pause(50)
    expect(ran).toBe(0)
  })

  test('whose `shouldSkip` returns an object admits nobody', async () => {
    class OwnGuard extends RateLimitGuard {
      protected override shouldSkip(): never {
        return {} as never
      }
    }
    Injectable()(OwnGuard)
    const url = await serveWith([{ provide: APP_GUARD, useClass: OwnGuard }])
    expect(await statuses(url, '/dogs/only', '/dogs/only')).toEqual([500, 500])
  })
})
