import { createRequire } from 'node:module'
import { consumer, entry } from '../lib/entry.mjs'

// It is found when a subject needs it: either the installed peers have it, or the package.
const require = createRequire(import.meta.url)
const QUOTA = 1_000_000_000
const HOUR = 3600
/** Longer than any measurement of a busy machine, so that the store makes each decision. */
const DEADLINE = '2s'

function connect(port) {
  const { Redis } = require('ioredis')
  return new Redis(port, '127.0.0.1')
}

/** Returns a function from a key to a decision. Subjects share no keys, and the processes of one subject share all. */
export async function ours({ root, subject, leased, guarded, port }) {
  const { createLimiter, denyCache, gcra, guard, lease } = await entry(root, 'sluice')
  const { redisStore } = await entry(root, 'sluice/redis')
  const bare = redisStore(connect(port), { prefix: `${subject}:` })
  const inside = leased ? lease(bare) : bare
  const store = guarded ? guard(denyCache(inside), { deadline: DEADLINE }) : inside
  const limits = gcra({ quota: 1000, window: '1d', burst: 20_000_000 })
  return consumer(createLimiter({ keyer: (key) => key, limits, store }))
}

async function flexible(port, keyPrefix, insured) {
  const { RateLimiterMemory, RateLimiterRedis } = await import('rate-limiter-flexible')
  const options = { storeClient: connect(port), keyPrefix, points: QUOTA, duration: HOUR }
  const insuranceLimiter = insured ? new RateLimiterMemory({ points: QUOTA, duration: HOUR }) : undefined
  const limiter = new RateLimiterRedis({
    ...options,
    ...(insured && { insuranceLimiter, inMemoryBlockOnConsumed: QUOTA }),
  })
  return (key) => limiter.consume(key)
}

export const others = {
  'rate-limiter-flexible': (port) => flexible(port, 'peer', false),
  /** What `guard` and `denyCache` do for our store. */
  'rate-limiter-flexible, insured': (port) => flexible(port, 'insured', true),
}
