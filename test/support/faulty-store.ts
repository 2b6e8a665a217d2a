import { type AsyncStore, memoryStore } from '../../src/index.ts'
import type { Operation, Reply } from '../../src/extend.ts'
import { laterStore } from './later.ts'

/** The fault of an operation that is never answered. */
export const SILENT: unique symbol = Symbol('silent')

/** Faults of all operations, and of none. */
export const down = (): Error => new Error('down')
export const up = (): undefined => undefined

/** A store that answers later, except operations with a fault. */
export interface FaultyStore extends AsyncStore {
  /** The operations that it was asked for. */
  readonly asked: Operation[]
  /**
   * Returns the error of an operation, `SILENT`, or `undefined` if the store answers. With a promise of one of these, the operation waits on its way to
   * the store.
   */
  fault(operation: Operation): unknown
}

export function faultyStore(
  fault: FaultyStore['fault'] = up,
  inner: AsyncStore = laterStore(memoryStore()),
): FaultyStore {
  const answer = (operation: Operation, reply: Reply, found: unknown): (() => void) | undefined => {
    if (found === undefined) return inner.run(operation, reply)
    if (found !== SILENT) queueMicrotask(() => reply.failed(found))
    return undefined
  }
  const store: FaultyStore = {
    ...inner,
    asked: [],
    fault,
    run(operation, reply) {
      store.asked.push(operation)
      const found = store.fault(operation)
      if (!(found instanceof Promise)) return answer(operation, reply, found)
      let isGivenUp = false
      let giveUp: (() => void) | undefined
      const goOn = async (): Promise<void> => {
        giveUp = answer(operation, reply, await found)
        if (isGivenUp) giveUp?.()
      }
      void goOn()
      return () => {
        isGivenUp = true
        giveUp?.()
      }
    },
  }
  return store
}
