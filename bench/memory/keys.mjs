/** Distinct keys, short enough to be flat strings from the start. Their hashes are not computed yet. */
export function distinctKeys(count, prefix = 'u') {
  const keys = new Array(count)
  for (let i = 0; i < count; i++) keys[i] = `${prefix}${i}`
  return keys
}

/** An order in which to take `count` keys at random, the same each time. */
export function randomOrder(count, length) {
  const order = new Uint32Array(length)
  let seed = 0x9e3779b9
  for (let i = 0; i < length; i++) {
    // xorshift32
    seed ^= seed << 13
    seed ^= seed >>> 17
    seed ^= seed << 5
    order[i] = (seed >>> 0) % count
  }
  return order
}

/** An order in which to take each of `count` keys once. */
export function inOrder(count) {
  return new Uint32Array(count).map((_, i) => i)
}

/** An order that takes one key many times. */
export const SAME_KEY = new Uint32Array(10_000)
