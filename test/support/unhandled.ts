import { onTestFinished } from 'vitest'

const EVENTS = ['unhandledRejection', 'uncaughtException'] as const

/** Collects what would end the process during a test: unhandled rejections, which Node reports after the microtasks of a turn, and uncaught exceptions. */
export function unhandled(): readonly unknown[] {
  const found: unknown[] = []
  const note = (error: unknown): void => void found.push(error)
  for (const event of EVENTS) {
    const before = process.listeners(event as 'uncaughtException')
    process.removeAllListeners(event).on(event, note)
    onTestFinished(() => {
      process.off(event, note)
      for (const each of before) process.on(event, each)
    })
  }
  return found
}

/** Ways in which a function can fail with the error `broken`, or with a value that has no text. */
export const FAILURES: Readonly<Record<string, () => never>> = {
  throws: () => broken(),
  'throws a value without a text': () => {
    throw Object.create(null)
  },
  rejects: (async () => broken()) as () => never,
  'rejects with a value without a text': (async () => {
    throw Object.create(null)
  }) as () => never,
  // oxlint-disable-next-line unicorn/no-thenable -- such as a query that runs when it is awaited
  'returns a thenable that throws': (() => ({ then: broken })) as unknown as () => never,
  'returns a thenable that rejects': (() => ({
    // oxlint-disable-next-line unicorn/no-thenable -- the same
    then: (_resolve: unknown, reject: (error: Error) => void) => reject(new Error('broken')),
  })) as unknown as () => never,
  'returns an object whose `then` throws when it is read': (() => ({
    // oxlint-disable-next-line unicorn/no-thenable -- the same
    get then() {
      return broken()
    },
  })) as unknown as () => never,
}

export function broken(): never {
  throw new Error('broken')
}
