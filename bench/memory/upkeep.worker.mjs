// What a store keeps of keys whose time has passed, and what a flood of keys does to it. Needs --expose-gc.
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { bytesInUse } from './bytes.mjs'
import { distinctKeys, inOrder, randomOrder } from './keys.mjs'
import { timed } from './loop.mjs'
import { MOST_KEYS, ours } from './subjects.mjs'

const MIB = 2 ** 20
const DENIED = 1000
const sluice = await entry(job.root, 'sluice')

/** Fills a store, lets an hour pass by its clock, decides on a thousand other keys, and returns the share still in use. */
async function expiry({ keys: count, further }) {
  let now = Date.now()
  const limits = [sluice.gcra({ quota: 100, window: '1m' })]
  const subject = ours(sluice, limits, { clock: { now: () => now }, maxKeys: MOST_KEYS })
  const few = distinctKeys(1000, 'other')
  const many = distinctKeys(count)
  await timed(subject, few, inOrder(few.length))
  const empty = await bytesInUse()
  await timed(subject, many, inOrder(many.length))
  const full = await bytesInUse()
  now += 3_600_000
  await timed(subject, few, randomOrder(few.length, further))
  const after = await bytesInUse()
  return { taken: (full - empty) / MIB, left: (after - empty) / MIB }
}

/** Decides on ten times more keys than the store may keep, while others are denied. */
function flood({ keys: maxKeys }) {
  const { decide } = ours(sluice, [sluice.gcra({ quota: 10, window: '1d' })], { maxKeys })
  for (let i = 0; i < DENIED; i++) for (let asked = 0; asked < 20; asked++) decide(`denied-${i}`)
  // Everything that a full store needs exists after twice `maxKeys`; flat means that nothing is added later.
  const settled = 2 * maxKeys
  let first = 0
  let most = 0
  for (let seen = 1; seen <= 10 * maxKeys; seen++) {
    decide(`f${seen}`)
    if (seen < settled || seen % maxKeys !== 0) continue
    globalThis.gc()
    const { rss } = process.memoryUsage()
    if (seen === settled) first = rss
    most = Math.max(most, rss)
  }
  let admitted = 0
  for (let i = 0; i < DENIED; i++) if (decide(`denied-${i}`).allowed) admitted++
  return { first: first / MIB, most: most / MIB, admitted }
}

finish(await { expiry, flood }[job.what](job))
