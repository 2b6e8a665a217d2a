import type { AsyncStore, SyncStore } from '../../src/index.ts'
import { isDeciding } from '../../src/stores/store.ts'
import { remoteStore } from '../../src/testing/later-store.ts'

/** A store that asks another one, later. Its place is its own, as that of a store in another process. */
export interface LaterStore extends AsyncStore {
  /** Decisions that came here. */
  asked: number
}

/** @param pause the way to the store and back; each takes so long. Default: a few microtasks */
export function laterStore(inner: SyncStore, pause?: () => Promise<void>): LaterStore {
  const remote = remoteStore(inner, pause)
  const store: LaterStore = {
    ...remote,
    asked: 0,
    run(operation, reply) {
      if (isDeciding(operation)) store.asked++
      return remote.run(operation, reply)
    },
  }
  return store
}
