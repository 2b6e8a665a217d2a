/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>

/** Returns true for a promise and for any other object with a method `then`. Use `Promise.resolve` on it: it may have no other method. */
export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

/** Calls `next` with a value: at once, or when the promise resolves. */
export function chain<T, Result>(
  value: MaybePromise<T>,
  next: (value: T) => MaybePromise<Result>,
): MaybePromise<Result> {
  return isPromise(value) ? Promise.resolve(value).then(next) : next(value)
}

/**
 * Calls a function for each item and returns all results: at once if none is a promise. All user functions for one decision are called
 * with it. If a call throws after an earlier call has returned a promise, the result rejects with the error. So each promise has a
 * handler, and a later rejection does not end the process.
 */
export function collect<Item, T>(
  items: readonly Item[],
  call: (item: Item) => MaybePromise<T>,
): MaybePromise<readonly T[]> {
  const results: MaybePromise<T>[] = []
  let isPending = false
  for (const item of items) {
    try {
      const result = call(item)
      isPending ||= isPromise(result)
      results.push(result)
    } catch (error) {
      if (!isPending) throw error
      results.push(Promise.reject(error as Error))
      break
    }
  }
  return isPending ? Promise.all(results) : (results as T[])
}

/** Calls a function and does not wait for its result. `failed` receives an error that it throws, or that its promise rejects with. */
export function detached(call: () => unknown, failed: (error: unknown) => void): void {
  try {
    const result = call()
    if (isPromise(result)) Promise.resolve(result).catch(failed)
  } catch (error) {
    failed(error)
  }
}

/** Returns true for a promise, and handles its rejection. Otherwise the rejection would end the process. Never throws. */
export function disown(refused: unknown): boolean {
  try {
    if (!isPromise(refused)) return false
    Promise.resolve(refused).catch(() => undefined)
    return true
  } catch {
    // The property `then` has thrown.
    return false
  }
}
