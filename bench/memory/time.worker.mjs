// Nanoseconds per decision: keys seen first, keys at random, one key. One of them in a process.
import { answer, job } from '../lib/worker.mjs'
import { distinctKeys, inOrder, randomOrder } from './keys.mjs'
import { MOST_ON_ONE_KEY, roomy, tight } from './limits.mjs'
import { spend } from './spend.mjs'
import { sluice, subjects } from './subjects.mjs'
import { warm } from './warm.mjs'

const { subject: name, limits, scenario, keys: count, ms } = job
const terms = scenario === 'denied' ? tight : roomy
const several = Array.from({ length: limits }, (_, i) => terms.limit(`limit-${i}`))
const make = limits === undefined ? () => subjects[name](terms, count) : () => sluice(several)

async function first(subject) {
  const keys = distinctKeys(count)
  return spend(subject, keys, inOrder(count))
}

async function random(subject) {
  const keys = distinctKeys(count)
  await spend(subject, keys, inOrder(count))
  return spend(subject, keys, randomOrder(count, Math.min(2 * count, 2 ** 21)), { ms })
}

async function hot(subject) {
  const order = new Uint32Array(10_000)
  await spend(subject, ['hot'], order, { ms: ms / 4, most: MOST_ON_ONE_KEY / 3 })
  return spend(subject, ['hot'], order, { ms, most: MOST_ON_ONE_KEY / 2 })
}

await warm(make)
answer({ ns: await { first, random, hot, denied: hot }[scenario](await make()) })
