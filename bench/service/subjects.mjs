import Redis from 'ioredis'
import { consumer, entry } from '../lib/entry.mjs'

const DAY = 86_400

/** The limit of the rules of this part. */
export async function ours({ root, build, port }) {
  const { createLimiter, gcra } = await entry(root, 'sluice')
  const { redisStore } = await entry(root, 'sluice/redis')
  const store = redisStore(new Redis(port, '127.0.0.1'), { prefix: `${build}:service:` })
  const limits = gcra({ quota: 1000, window: '1d', burst: 20_000_000 })
  return consumer(createLimiter({ keyer: (key) => key, limits, store }))
}

/**
 * The commands that Envoy's rate limit service sends for each descriptor, by a client of Node and not of Go, in pipelines of what is asked in one turn. Its
 * key has the start of the window.
 */
export const others = {
  'INCRBY and EXPIRE': async (port) => {
    const client = new Redis(port, '127.0.0.1', { enableAutoPipelining: true })
    return async function count(key) {
      const window = `${key}_${Math.floor(Date.now() / 1000 / DAY) * DAY}`
      const [used] = await Promise.all([client.incrby(window, 1), client.expire(window, DAY)])
      return { allowed: used <= 1000 * DAY }
    }
  },
}
