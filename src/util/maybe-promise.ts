/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>

export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

/** Calls `next` with a value: at once, or when its promise resolves. */
export function chain<T, Result>(
  value: MaybePromise<T>,
  next: (value: T) => MaybePromise<Result>,
): MaybePromise<Result> {
  return isPromise(value) ? value.then(next) : next(value)
}

/** Returns all values: at once if none is a promise. */
export function all<T>(values: readonly MaybePromise<T>[]): MaybePromise<readonly T[]> {
  return values.some(isPromise) ? Promise.all(values) : (values as readonly T[])
}
