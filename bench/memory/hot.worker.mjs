// Nanoseconds per decision on one hot key, of one subject.
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { SAME_KEY } from './keys.mjs'
import { MOST_ON_ONE_KEY, roomy, roomyLimit, tight, tightLimit } from './limits.mjs'
import { timed, warmUp } from './loop.mjs'
import { pollute } from './pollute.mjs'
import { limiterOf, others, ours } from './subjects.mjs'

const { name, root, count = 1, denied, slots, polluted, ms } = job

async function maker() {
  if (root === undefined) return () => others[name](denied ? tight : roomy)
  const sluice = await entry(root, 'sluice')
  if (polluted) pollute(sluice)
  const limit = denied ? tightLimit : roomyLimit
  const limits = Array.from({ length: count }, (_, i) => limit(sluice, `limit-${i}`))
  return () => (slots ? released(sluice, limits) : ours(sluice, limits))
}

/** Takes a slot in addition, and gives it back. */
function released(sluice, limits) {
  const limiter = limiterOf(sluice, [...limits, sluice.concurrent(10)])
  return {
    sync: true,
    decide(key) {
      const decision = limiter.consume(key)
      limiter.release(decision)
      return decision
    },
  }
}

const make = await maker()
await warmUp(make)
const subject = await make()
await timed(subject, ['hot'], SAME_KEY, { ms: ms / 4, most: MOST_ON_ONE_KEY / 3 })
finish({ ns: await timed(subject, ['hot'], SAME_KEY, { ms, most: MOST_ON_ONE_KEY / 2 }) })
