import type { Store } from '../stores/store.ts'
import { madeOnce, shared } from '../util/copies.ts'
import { isWorker } from '../util/worker.ts'
import type * as QueueCode from './queue/wait-queue.ts'
import * as queueTools from './queue-tools.ts'

// The places where requests wait. Few programs use `wait`, so the code in `queue/` is loaded by the first limiter that needs it.

/** A place where requests can wait. The first request that waits creates the queue. */
export interface WaitPlace {
  queue: QueueCode.WaitQueue | undefined
}

const places = shared('wait places', () => new WeakMap<object, WaitPlace>())

/**
 * Returns the place of the queue of a store. All limiters whose stores count in one place share it, such as a store and a guard of it, so that each
 * key has one order of waiters.
 */
export function waitPlaceOf(store: Store): WaitPlace {
  return madeOnce(places, store.place, () => ({ queue: undefined }))
}

type Code = typeof QueueCode

let loaded: Code | undefined
let loading: Promise<Code> | undefined

/** Returns the code of queues. All callers get the same promise, so that they keep their order. */
export function queueCode(): Promise<Code> {
  loading ??= import('./queue/wait-queue.ts').catch((error: unknown) => {
    // The next call tries again.
    loading = undefined
    throw error
  })
  return loading
}

/**
 * Returns the queue of a place; `undefined` until the code of queues is loaded. In a Worker, each request has its own: the timers of one request could not
 * serve others, and a Worker does not learn when a request has ended.
 * @param code the result of `queueCode`
 */
export function queueIn(place: WaitPlace, code: Code | undefined = loaded): QueueCode.WaitQueue | undefined {
  loaded = code
  if (isWorker) return code?.createQueue(queueTools)
  if (code !== undefined) place.queue ??= code.createQueue(queueTools)
  return place.queue
}

/** Loads the code of queues, so that the first request that waits does not have to. It never rejects: after an error, that request loads it again. */
export async function loadQueues(): Promise<void> {
  try {
    loaded = await queueCode()
  } catch {
    // The first request that waits gets the error.
  }
}
