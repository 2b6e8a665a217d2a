import { type AsyncStore, memoryStore } from '../../../src/index.ts'
import type { Operation } from '../../../src/extend.ts'
import { laterStore } from '../../support/later.ts'

/** Says that a store never answers. */
export const SILENT: unique symbol = Symbol('silent')

/** A store that answers later, unless `fault` returns the error of an operation, or `SILENT`. */
export function faultyStore(
  fault: (operation: Operation) => unknown,
  inner: AsyncStore = laterStore(memoryStore()),
): AsyncStore {
  return {
    ...inner,
    run(operation, reply) {
      const error = fault(operation)
      if (error === undefined) return inner.run(operation, reply)
      if (error !== SILENT) queueMicrotask(() => reply.failed(error))
      return undefined
    },
  }
}
