import { createRequire } from 'node:module'
import Redis from 'ioredis'
import { createLimiter, gcra, slidingWindowLog } from 'sluice'

const require = createRequire(import.meta.url)
const QUOTA = 1_000_000_000
const HOUR = 3600

/** Each is given a port and makes what decides: a function from a key to a Promise. Nobody is denied. */
export const subjects = {
  'floor: INCR, auto-pipelined': (port) => {
    const client = connect(port, { enableAutoPipelining: true })
    return (key) => client.incr(key)
  },
  'sluice, one limit': (port) => sluice(port, [roomy(1)]),
  'sluice, three limits': (port) => sluice(port, [roomy(1), roomy(2), roomy(3)]),
  'rate-limiter-flexible': (port) => flexible(connect(port), 'one'),
  'rate-limiter-flexible, client auto-pipelined': (port) =>
    flexible(connect(port, { enableAutoPipelining: true }), 'one'),
  'rate-limiter-flexible, Union of three': async (port) => {
    const { RateLimiterUnion } = await import('rate-limiter-flexible')
    const client = connect(port)
    const three = [
      await flexibleLimiter(client, 'a'),
      await flexibleLimiter(client, 'b'),
      await flexibleLimiter(client, 'c'),
    ]
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
        store.incr(
          key,
          (error, result) => (error ? reject(new Error('refused', { cause: error })) : resolve(result)),
          HOUR * 1000,
          QUOTA,
        )
      })
  },
  // Logs that are full, and whose entries leave as others come.
  'gcra, quota 1,000': (port) => sluice(port, [gcra({ quota: 1000, window: '1s' })]),
  'slidingWindowLog, quota 1,000': (port) => sluice(port, [slidingWindowLog({ quota: 1000, window: '1s' })]),
}

function roomy(i) {
  return gcra({ name: `limit-${i}`, quota: 1000, window: '1d', burst: 20_000_000 })
}

async function sluice(port, limits) {
  const { redisStore } = await import('sluice/redis')
  const limiter = createLimiter({ keyer: (key) => key, limits, store: redisStore(connect(port)) })
  return (key) => limiter.check(key)
}

async function flexible(client, prefix) {
  const limiter = await flexibleLimiter(client, prefix)
  return (key) => limiter.consume(key)
}

async function flexibleLimiter(storeClient, keyPrefix) {
  const { RateLimiterRedis } = await import('rate-limiter-flexible')
  return new RateLimiterRedis({ storeClient, keyPrefix, points: QUOTA, duration: HOUR })
}

function connect(port, options = {}) {
  return new Redis(port, '127.0.0.1', options)
}
