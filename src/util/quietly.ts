/** Returns the result of work; `undefined` if it throws. */
export function quietly<Result>(work: () => Result): Result | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
