import type { AsyncStore, Operation, Reply, SyncStore } from '../../src/index.ts'
import { isDeciding } from '../../src/stores/store.ts'
import { remoteStore } from '../../src/testing/remote-store.ts'

/** A store that asks another one, later. Its place is its own, as that of a store in another process. */
export class LaterStore implements AsyncStore {
  readonly sync = false
  readonly answersAlways = false
  readonly place: AsyncStore['place']
  readonly clock: AsyncStore['clock']
  /** Decisions that came here. */
  asked = 0
  readonly #remote: AsyncStore

  /** @param pause the way to the store and back; each takes so long. Default: a few microtasks */
  constructor(inner: SyncStore, pause?: () => Promise<void>) {
    this.#remote = remoteStore(inner, pause)
    this.place = this.#remote.place
    this.clock = inner.clock
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    if (isDeciding(operation)) this.asked++
    return this.#remote.run(operation, reply)
  }

  readonly close = (): Promise<void> => this.#remote.close()
}
