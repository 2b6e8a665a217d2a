import { loadChecks } from '../../http/checking.ts'
import { everyone } from '../../limiter/keyers.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { type AsyncStore, type Degraded, isDeciding, type Store } from '../../stores/store.ts'
import { fixedWindow } from '../../engine/factories.ts'
import type { Limit } from '../../engine/limit.ts'
import { remoteStore } from '../later-store.ts'
import { type VirtualClock, virtualClock } from '../virtual-clock.ts'
import type { Ask } from './client.ts'
import type { AdapterHarness, AnyOptions, AppSetup, Handler, Served } from './harness.ts'

/** The handler of a route is optional. */
type Routes = readonly { readonly path: string; readonly limit?: AnyOptions; readonly handler?: Handler }[]
type Setup = Partial<Omit<AppSetup, 'routes'>> & { readonly routes?: Routes }

/** A framework, a virtual clock, and servers that are closed at the end. */
export interface World {
  readonly harness: AdapterHarness
  readonly clock: VirtualClock
  /** Returns options with a keyer for everyone and a store on the clock. */
  limit(limits: unknown, options?: AnyOptions): AnyOptions
  /** Returns a keyer for a header. */
  by(name: string): (request: unknown) => string
  serve(setup: Setup): Promise<Served>
  close(): Promise<void>
}

export type Cases = Readonly<Record<string, (world: World) => Promise<void>>>

const ok: Handler = () => ({ text: 'ok' })

export function createWorld(harness: AdapterHarness): World {
  const clock = virtualClock()
  const servers: Served[] = []
  return {
    harness,
    clock,
    limit: (limits, options) => ({ keyer: everyone, limits, store: memoryStore({ clock }), ...options }),
    by: (name) => (request) => String(harness.header(request, name)),
    async serve({ limits = [], routes = [], handler = ok, ...others }) {
      const answered = routes.map((route) => Object.assign({ handler: ok }, route))
      // Otherwise the first requests would not be checked.
      await loadChecks()
      const server = await harness.serve({ limits, routes: answered, handler, ...others })
      servers.push(server)
      return server
    },
    async close() {
      for (const server of servers) await server.close()
    },
  }
}

/** Returns a store that answers at once, and a store that answers later. */
export function bothStores(world: World): readonly Store[] {
  return [memoryStore({ clock: world.clock }), laterStore(world)]
}

/** Returns a handler that answers with the status in a header of the request. */
export function statusHandler({ by }: World): Handler {
  return ({ request }) => ({ status: Number(by('x-status')(request)), text: '' })
}

/** Returns a request with a status for `statusHandler`. */
export const answered = (status: number, headers: Readonly<Record<string, string>> = {}): Ask => ({
  headers: { ...headers, 'x-status': String(status) },
})

/** Returns a store that answers later. */
export function laterStore({ clock }: World): AsyncStore {
  return remoteStore(memoryStore({ clock }))
}

/** Returns a store in an outage. Its decisions are open or closed. */
export function outageStore(world: World, degraded: Exclude<Degraded, 'local'>): AsyncStore {
  return {
    ...laterStore(world),
    run(operation, reply) {
      if (isDeciding(operation)) for (const charge of operation.charges) charge.allowed = degraded === 'open'
      queueMicrotask(() => reply.answered(degraded))
      return () => undefined
    },
  }
}

export function fault(): never {
  throw new Error('broken')
}

export const preflight: Ask = {
  method: 'OPTIONS',
  headers: { origin: 'https://example.org', 'access-control-request-method': 'PUT' },
}

export const hundred: Limit = fixedWindow({ name: 'default', quota: 100, window: '1m' })
export const one: Limit = fixedWindow({ name: 'one', quota: 1, window: '1m' })
export const three: Limit = fixedWindow({ name: 'three', quota: 3, window: '1m' })
