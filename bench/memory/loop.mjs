import { distinctKeys, inOrder, randomOrder, SAME_KEY } from './keys.mjs'

/** Keeps the last result, so that the engine cannot leave the work out. */
export let last

/**
 * Decides on keys in an order, again and again until `ms` have passed or `most` decisions are made, and at least once.
 * @param {import('./subjects.mjs').Subject} subject
 * @param {{ ms?: number, most?: number }} [until] default: once
 * @returns {Promise<number>} nanoseconds of processor time per decision, garbage collection included
 */
export async function timed(subject, keys, order, { ms = 0, most = Infinity } = {}) {
  const pass = subject.sync ? passSync : passAsync
  const end = performance.now() + ms
  const before = process.cpuUsage()
  let decisions = 0
  do {
    await pass(subject.decide, keys, order)
    decisions += order.length
  } while (performance.now() < end && decisions + order.length <= most)
  const { user, system } = process.cpuUsage(before)
  return ((user + system) * 1000) / decisions
}

function passSync(decide, keys, order) {
  for (let i = 0; i < order.length; i++) last = decide(keys[order[i]])
}

async function passAsync(decide, keys, order) {
  for (let i = 0; i < order.length; i++) last = await decide(keys[order[i]])
}

/** Has the code compiled on a separate subject, so that the one measured next starts empty and at full speed. */
export async function warmUp(make) {
  const subject = await make()
  const keys = distinctKeys(20_000, 'w')
  await timed(subject, keys, inOrder(keys.length))
  await timed(subject, keys, randomOrder(keys.length, keys.length), { ms: 80 })
  await timed(subject, ['w0'], SAME_KEY, { ms: 80, most: 1_000_000 })
}
