import Redis from 'ioredis'
import { entry } from '../lib/entry.mjs'
import { longLogRows, timeLongLogs } from '../lib/long-logs.mjs'

/** The time that single decisions on long logs take in the server. Nothing else runs there meanwhile. */
export function longLogs({ builds, server, rounds }) {
  const steps = builds.map(({ name, root }) => ({ subject: name, measure: () => measure(name, root, server) }))
  const group = 'Redis, slidingWindowLog, time of one decision in the server'
  const rows = (samples) => longLogRows(samples, group)
  return { title: 'long logs', rounds: Math.ceil(rounds / 2), steps, rows }
}

async function measure(name, root, { port, client }) {
  const { redisStore } = await entry(root, 'sluice/redis')
  const own = new Redis(port, '127.0.0.1')
  await client.flushall()
  const saved = new Map()
  try {
    return await timeLongLogs({
      root,
      makeStore: (clock) => redisStore(own, { prefix: `${name}:`, clock }),
      time: (action) => timeInServer(client, action),
      refill: (log) => refill(client, `${name}:log-${log.size}:key`, log, saved),
    })
  } finally {
    own.disconnect()
  }
}

/** Fills a log once, and brings its key back from then on. */
async function refill(client, key, log, saved) {
  if (!saved.has(log.size)) {
    await log.fill()
    saved.set(log.size, await client.dumpBuffer(key))
  }
  await client.restore(key, 0, saved.get(log.size), 'REPLACE')
  log.restart()
}

/** Returns the microseconds that the server spends on functions and scripts. */
async function timeInServer(client, action) {
  const before = await spent(client)
  await action()
  return (await spent(client)) - before
}

async function spent(client) {
  const stats = await client.info('commandstats')
  const times = [...stats.matchAll(/cmdstat_(?:eval|evalsha|fcall):calls=\d+,usec=(\d+)/g)]
  return times.reduce((sum, [, usec]) => sum + Number(usec), 0)
}
