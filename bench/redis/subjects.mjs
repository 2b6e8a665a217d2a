import { createRequire } from 'node:module'
import Redis from 'ioredis'
import { consumer, entry } from '../lib/entry.mjs'

const require = createRequire(import.meta.url)
const QUOTA = 1_000_000_000
const HOUR = 3600
/** So short a window that no key reaches its quota, and that the log of each key is full of entries that come and go. */
const BUSY = { quota: 1000, window: '150ms' }

/** The limits of our subjects. Only `used up` denies: each request but the first of a key. */
const limits = {
  'one limit': (sluice) => [roomy(sluice, 1)],
  'three limits': (sluice) => [roomy(sluice, 1), roomy(sluice, 2), roomy(sluice, 3)],
  gcra: ({ gcra }) => [gcra(BUSY)],
  slidingWindowLog: ({ slidingWindowLog }) => [slidingWindowLog(BUSY)],
  'used up': ({ gcra }) => [gcra({ name: 'tight', quota: 1, window: '1d' })],
}

function roomy({ gcra }, i) {
  return gcra({ name: `limit-${i}`, quota: 1000, window: '1d', burst: 20_000_000 })
}

/**
 * A limiter of a build, with a cache of denials or a guard if so asked. Each build has its own keys, and so has a limiter with
 * a cache. Returns a function from a key to a Promise of the decision.
 */
export async function ours({ root, build, limits: name, port, username, cached = false, guarded = false }) {
  const sluice = await entry(root, 'sluice')
  const { redisStore } = await entry(root, 'sluice/redis')
  const client = connect(port, username === undefined ? {} : { username, password: 'none' })
  const redis = redisStore(client, { prefix: `${build}:${name}:${cached}:` })
  const store = cached ? sluice.denyCache(redis) : guarded ? sluice.guard(redis) : redis
  return consumer(sluice.createLimiter({ keyer: (key) => key, limits: limits[name](sluice), store }))
}

/** The peers: each is given a port and returns a function from a key to a Promise. */
export const others = {
  'rate-limiter-flexible': async (port) => {
    const limiter = await flexible(connect(port), 'one')
    return (key) => limiter.consume(key)
  },
  RateLimiterUnion: async (port) => {
    const { RateLimiterUnion } = await import('rate-limiter-flexible')
    const client = connect(port)
    const three = await Promise.all(['a', 'b', 'c'].map((prefix) => flexible(client, prefix)))
    const union = new RateLimiterUnion(...three)
    return (key) => union.consume(key)
  },
  'rate-limit-redis': async (port) => {
    const { RedisStore } = await import('rate-limit-redis')
    const client = connect(port)
    const store = new RedisStore({ sendCommand: (...command) => client.call(...command) })
    await store.init({ windowMs: HOUR * 1000 })
    return (key) => store.increment(key)
  },
  '@fastify/rate-limit': (port) => {
    const RedisStore = require('@fastify/rate-limit/store/RedisStore.js')
    const store = new RedisStore(false, false, connect(port))
    return (key) =>
      new Promise((resolve, reject) => {
        const done = (error, result) => (error ? reject(new Error('failed', { cause: error })) : resolve(result))
        store.incr(key, done, HOUR * 1000, QUOTA)
      })
  },
  'INCR, auto-pipelined': (port) => {
    const client = connect(port, { enableAutoPipelining: true })
    return (key) => client.incr(key)
  },
}

async function flexible(storeClient, keyPrefix) {
  const { RateLimiterRedis } = await import('rate-limiter-flexible')
  return new RateLimiterRedis({ storeClient, keyPrefix, points: QUOTA, duration: HOUR })
}

function connect(port, options = {}) {
  return new Redis(port, '127.0.0.1', options)
}
