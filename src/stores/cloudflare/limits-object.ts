import { quietly } from '../../util/quietly.ts'
import { MOST_CHARACTERS } from '../remote/message.ts'
import { answering } from '../remote/serve.ts'
import { type DurableObjectStorageLike, type DurableObjectStore, storageStore } from './storage.ts'

/** `ctx` of a Durable Object. */
export interface DurableObjectStateLike {
  /** Its storage. */
  readonly storage: DurableObjectStorageLike
}

/**
 * A Durable Object that counts. Export it from the Worker, and pass its binding to `durableObjectStore`. It keeps the counts in its storage, so that they
 * survive when the object is evicted, and deletes those that have expired by an alarm.
 * @example export { LimitsObject } from 'sluice/cloudflare'
 */
export class LimitsObject {
  /** Exists only in types: `DurableObjectNamespace<LimitsObject>` requires it. */
  declare readonly __DURABLE_OBJECT_BRAND: never
  readonly #store: DurableObjectStore
  readonly #answer: ReturnType<typeof answering>

  constructor(ctx: DurableObjectStateLike, _env?: unknown) {
    this.#store = storageStore(ctx.storage, {})
    this.#answer = answering(this.#store)
  }

  /** Does the operations of a message of `durableObjectStore`. */
  async fetch(request: Request): Promise<Response> {
    const text = await request.text()
    // Anything but a message is answered with an error.
    const message = text.length <= MOST_CHARACTERS ? quietly((): unknown => JSON.parse(text)) : undefined
    return Response.json(await this.#answer(message))
  }

  /** Deletes expired counts. */
  alarm(): Promise<void> {
    return this.#store.alarm()
  }
}
