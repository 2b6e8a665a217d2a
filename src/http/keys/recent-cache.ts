import { copyText } from '../../util/copy-text.ts'

/** Results for longer texts are not cached, so that clients cannot fill the memory with them. */
const MAX_TEXT_LENGTH = 64

/**
 * Caches the latest results of a pure function of a text: at least `size` and at most twice as many. It has two generations
 * and drops the older one as a whole, which is cheaper than keeping the texts in order. `undefined` is not cached.
 */
export function recentCache<Result>(size: number, compute: (text: string) => Result): (text: string) => Result {
  let young = new Map<string, Result>()
  let old = new Map<string, Result>()

  function keep(text: string, result: Result): Result {
    if (young.size >= size) {
      old = young
      young = new Map()
    }
    young.set(text, result)
    return result
  }

  return function cached(text) {
    const recent = young.get(text)
    if (recent !== undefined) return recent
    const older = old.get(text)
    if (older !== undefined) return keep(text, older)
    if (text.length > MAX_TEXT_LENGTH) return compute(text)
    const copy = copyText(text)
    const result = compute(copy)
    return result === undefined ? result : keep(copy, result)
  }
}
