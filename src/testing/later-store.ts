import {
  type AsyncStore,
  copiesOf,
  type Degraded,
  isDeciding,
  type Operation,
  perform,
  type Place,
  type SyncStore,
  undo,
} from '../stores/store.ts'
import { wrappers } from '../stores/wrappers.ts'

/**
 * Returns a store that behaves like another store, but answers later, like a store in another process. It has its own place.
 * @param travel waits for the time of one way, to the store or back. Default: a few microtasks
 */
export function remoteStore(inner: SyncStore, travel: () => Promise<void> = async () => undefined): AsyncStore {
  /** Decides copies of the charges, because the caller may give the decision up on the way. */
  async function answer(operation: Operation, isGivenUp: () => boolean): Promise<Degraded | undefined> {
    await travel()
    if (!isDeciding(operation)) {
      perform(inner, operation)
      await travel()
      return undefined
    }
    const copies = copiesOf(operation.charges)
    const by = perform(inner, { ...operation, charges: copies })
    await travel()
    if (isGivenUp()) await undo(inner, copies)
    else for (const [i, charge] of operation.charges.entries()) charge.adopt(copies[i]!)
    return by
  }

  return promisedStore(answer, { clock: inner.clock, close: async () => inner.close() })
}

/** Returns a store that answers an operation when a promise resolves. It has its own place. */
export function promisedStore(
  answer: (operation: Operation, isGivenUp: () => boolean) => Promise<Degraded | undefined>,
  members: Pick<AsyncStore, 'clock' | 'close'> & Partial<AsyncStore>,
): AsyncStore {
  const place: Place = { partOf: () => '', joins: (other) => other === place }
  return {
    sync: false,
    answersAlways: false,
    wrappers,
    place,
    run(operation, reply) {
      let isGivenUp = false
      answer(operation, () => isGivenUp).then(
        (by) => reply.answered(by),
        (error: unknown) => reply.failed(error),
      )
      return () => {
        isGivenUp = true
      }
    },
    ...members,
  }
}
