/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>

/** True for a promise, and for any other object with the method `then`. Use it with `Promise.resolve`: only `then` is known to exist. */
export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

/** Calls `next` with a value: at once, or when its promise resolves. */
export function chain<T, Result>(
  value: MaybePromise<T>,
  next: (value: T) => MaybePromise<Result>,
): MaybePromise<Result> {
  return isPromise(value) ? Promise.resolve(value).then(next) : next(value)
}

/**
 * Calls a function for each item and returns all results: at once if none is a promise. All functions of the user that are called for one
 * decision are called through it. If a call throws after an earlier one has returned a promise, the result rejects with the error. So each
 * promise has a handler: one that rejects later does not end the process.
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

/** Calls a function whose result nothing waits for. What it throws, or its promise rejects with, goes to `failed`. */
export function detached(call: () => unknown, failed: (error: unknown) => void): void {
  try {
    const result = call()
    if (isPromise(result)) Promise.resolve(result).catch(failed)
  } catch (error) {
    failed(error)
  }
}

/** Returns true for a promise that is refused, and handles its rejection: without a handler it would end the process. Never throws. */
export function disown(refused: unknown): boolean {
  try {
    if (!isPromise(refused)) return false
    Promise.resolve(refused).catch(() => undefined)
    return true
  } catch {
    // Reading `then` throws.
    return false
  }
}
