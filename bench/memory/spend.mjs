/** Keeps what was decided from being optimised away. */
export let last

/**
 * Decides on keys in an order, over and over, until `ms` have passed or `most` decisions are made; at least once through.
 * @param {import('./subjects.mjs').Subject} subject
 * @param {{ ms?: number, most?: number }} [until] once through the order unless told
 * @returns {Promise<number>} nanoseconds per decision
 */
export async function spend(subject, keys, order, { ms = 0, most = Infinity } = {}) {
  const pass = subject.sync ? passAtOnce : passLater
  let decisions = 0
  const began = performance.now()
  let elapsed
  do {
    await pass(subject.decide, keys, order)
    decisions += order.length
    elapsed = performance.now() - began
  } while (elapsed < ms && decisions + order.length <= most)
  return (elapsed * 1e6) / decisions
}

function passAtOnce(decide, keys, order) {
  for (let i = 0; i < order.length; i++) last = decide(keys[order[i]])
}

async function passLater(decide, keys, order) {
  for (let i = 0; i < order.length; i++) last = await decide(keys[order[i]])
}
