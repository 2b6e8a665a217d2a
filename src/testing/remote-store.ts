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

/**
 * Returns a store that does what another one does, later, like a store in another process. Its place is its own.
 * @param travel the way to the store and back: each takes so long. Default: a few microtasks
 */
export function remoteStore(inner: SyncStore, travel: () => Promise<void> = async () => undefined): AsyncStore {
  const place: Place = { partOf: () => '', joins: (other) => other === place }

  /** Decides copies, because the decision may be given up on the way. */
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

  return {
    sync: false,
    answersAlways: false,
    place,
    clock: inner.clock,
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
    close: async () => inner.close(),
  }
}
