import { type Clock, clockGiven } from '../../util/clock.ts'
import { madeOnce, shared } from '../../util/copies.ts'
import { fnv1a } from '../../util/fnv.ts'
import { keepRequestsBy } from '../../util/worker.ts'
import { knownOptions, wholeNumber } from '../../util/validate.ts'
import type { StoreMessage } from '../remote/message.ts'
import { RemoteStore } from '../remote/remote.ts'
import { type AsyncStore, ownPlace, type Place } from '../store.ts'
import { wrappers } from './wrappers.ts'

/** A binding of Durable Objects, such as `env.LIMITS`. */
export interface DurableObjectNamespaceLike {
  /** Returns the id of the object with a name. */
  idFromName(name: string): unknown
  /** Returns the stub of an object, which sends requests to it. */
  get(id: unknown): DurableObjectStubLike
}

/** A stub of a Durable Object. It sends requests to the object. */
export interface DurableObjectStubLike {
  /** Sends a request. */
  fetch(url: string, request: { method: string; body: string }): Promise<ObjectResponse>
}

/** The response of a Durable Object. */
export interface ObjectResponse {
  /** True for a status from 200 to 299. */
  readonly ok: boolean
  /** The status. */
  readonly status: number
  /** Reads the body. */
  text(): Promise<string>
}

/** Options of `durableObjectStore` for a binding. */
export interface DurableObjectsOptions {
  /**
   * How many objects count, from 1. A key belongs to one of them by its hash. An object decides about 1,000 requests a second at most. With 1, a stack can have
   * limiters with different keys. Default: each key has its own object.
   */
  readonly objects?: number
  /** Uses this clock instead of the platform's: for tests. */
  readonly clock?: Clock
}

/** The URL of requests to objects. It only has to be valid. */
const URL = 'https://limits/'
/** How many characters of an error response are kept. */
const MOST_TEXT = 200

/** Makes a store of the objects behind a binding: see `durableObjectStore`. */
export function namespaceStore(namespace: DurableObjectNamespaceLike, options: DurableObjectsOptions): AsyncStore {
  options = knownOptions('durableObjectStore', options, ['objects', 'clock'])
  const { objects, clock } = options
  if (objects !== undefined) wholeNumber('objects', objects)
  keepRequests()
  const place = placeOf(namespace, objects)
  async function send(message: StoreMessage, name: string): Promise<unknown> {
    const stub = namespace.get(namespace.idFromName(name))
    const response = await stub.fetch(URL, { method: 'POST', body: JSON.stringify(message) })
    const text = await response.text()
    if (!response.ok) throw new Error(`a Durable Object answered ${response.status}: ${text.slice(0, MOST_TEXT)}`)
    return JSON.parse(text) as unknown
  }
  return new RemoteStore(send, place, {
    batch: false,
    hasParts: true,
    clock: clock && clockGiven(clock),
    wrappers,
  })
}

const places = shared('Durable Objects', () => new WeakMap<object, Map<number | undefined, Place>>())

/** Returns the place of a binding: the same object for each store of the binding, so that two limiters with one name are detected. */
function placeOf(namespace: object, objects: number | undefined): Place {
  const known = madeOnce(places, namespace, () => new Map<number | undefined, Place>())
  return madeOnce(known, objects, () =>
    ownPlace<Partial<Place>>({
      name: 'a Durable Object',
      partOf: (_, key) => (objects === undefined ? key : String(fnv1a(key) % objects)),
      ...(objects !== 1 && { together: 'key' }),
    }),
  )
}

/** Keeps a request of a Worker alive after its response was sent: a refund, or the release of a slot, can be under way. */
function keepRequests(): void {
  import('cloudflare:workers').then(
    ({ waitUntil }) => waitUntil && keepRequestsBy(waitUntil),
    () => undefined,
  )
}
