/**
 * Cloudflare: limits that Durable Objects count.
 *
 * @example
 * import { env } from 'cloudflare:workers'
 * import { Hono } from 'hono'
 * import { perMinute } from 'sluice'
 * import { durableObjectStore } from 'sluice/cloudflare'
 * import { byHeader, rateLimit } from 'sluice/hono'
 *
 * export { LimitsObject } from 'sluice/cloudflare'
 *
 * const app = new Hono()
 * app.use(rateLimit({ keyer: byHeader('x-api-key'), limits: perMinute(100), store: durableObjectStore(env.LIMITS) }))
 * export default app
 * @module
 */
import { refuse } from '../../util/validate.ts'
import type { AsyncStore } from '../store.ts'
import { type DurableObjectNamespaceLike, type DurableObjectsOptions, namespaceStore } from './namespace.ts'
import {
  type DurableObjectStorageLike,
  type DurableObjectStore,
  type DurableObjectStoreOptions,
  storageStore,
} from './storage.ts'

export { type DurableObjectStateLike, LimitsObject } from './limits-object.ts'
export type {
  DurableObjectNamespaceLike,
  DurableObjectsOptions,
  DurableObjectStubLike,
  ObjectResponse,
} from './namespace.ts'
export type {
  DurableObjectStorageLike,
  DurableObjectStore,
  DurableObjectStoreOptions,
  DurableObjectTransactionLike,
} from './storage.ts'

/**
 * Makes a store of the Durable Objects behind a binding whose class is `LimitsObject`. Each key has its own object, or one of `objects` by its hash.
 * Several limits of one key are one request to its object. A stack whose limiters have different keys is refused, unless there is one object.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if its object does not answer. Adapters guard the store.
 * @example const store = durableObjectStore(env.LIMITS)
 */
export function durableObjectStore(namespace: DurableObjectNamespaceLike, options?: DurableObjectsOptions): AsyncStore
/**
 * Makes a store of the storage of a Durable Object of your own. Requests of one key must reach one object: name the object after the key. The clock is
 * the platform's.
 *
 * Call `store.alarm()` in `alarm()` of the object. The store sets the alarm, unless one is set already. An object has only one alarm: if you set it
 * yourself, rows are deleted when it goes off.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if the storage failed, and with `STORE_REJECTED` if the
 * row of a key would be too large: 127 KiB, or 2047 KiB in an object with SQLite.
 * @example const store = durableObjectStore(ctx.storage)
 */
export function durableObjectStore(
  storage: DurableObjectStorageLike,
  options?: DurableObjectStoreOptions,
): DurableObjectStore
export function durableObjectStore(
  given: DurableObjectNamespaceLike | DurableObjectStorageLike,
  options: DurableObjectsOptions & DurableObjectStoreOptions = {},
): AsyncStore {
  if (has(given, 'idFromName') && has(given, 'get')) return namespaceStore(given as DurableObjectNamespaceLike, options)
  if (has(given, 'transaction')) return storageStore(given as DurableObjectStorageLike, options)
  return refuse(
    'durableObjectStore',
    'a binding of Durable Objects, env.LIMITS, or the storage of one, ctx.storage',
    given,
  )
}

function has(given: unknown, method: string): boolean {
  return typeof (given as Readonly<Record<string, unknown>> | null | undefined)?.[method] === 'function'
}
