import { Cluster, Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, limit, type LimitInput, stack } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { type RacingProcesses, startProcesses } from '../../support/racing-processes.ts'
import { afterTest } from '../../support/after-test.ts'
import { left } from '../../support/limiters.ts'
import { clusterForAll, redisForAll } from '../../support/redis-tests.ts'

const PROCESSES = 3
const IN_FLIGHT = 40
const ASKS = 300
const YEAR = 31_536_000_000

/** Every algorithm with a hard bound, in windows so long that nothing drains while a test runs. */
const HARD: readonly LimitInput[] = [
  { algorithm: 'gcra', quota: 10, burst: 97, window: YEAR },
  { algorithm: 'tokenBucket', quota: 97, window: YEAR },
  { algorithm: 'tokenBucket', quota: 97, window: YEAR, refill: 'interval' },
  { algorithm: 'leakyBucket', quota: 10, capacity: 97, window: YEAR },
  { algorithm: 'fixedWindow', quota: 97, window: YEAR },
  { algorithm: 'slidingWindowLog', quota: 97, window: YEAR },
  { algorithm: 'slidingWindowBuckets', quota: 97, window: YEAR, buckets: 10 },
  { algorithm: 'quotaLinear', quota: 97, window: YEAR },
]

interface MemberData {
  readonly name: string
  /** Whom it counts, when that is always the same. */
  readonly key?: string
  readonly limits: readonly LimitInput[]
}

const redis = redisForAll()
const cluster = clusterForAll()
let runs = 0

let processes: RacingProcesses

/** Starts the processes, on a server or a cluster. */
async function start(place: string): Promise<void> {
  const { url } = place === 'a cluster' ? cluster.nodes[0]! : redis.server
  processes = await startProcesses(PROCESSES, { kind: place === 'a cluster' ? 'cluster' : 'redis', url })
}

/** What each key was admitted by all processes together. */
async function race(members: readonly MemberData[], keys: readonly string[]): Promise<number[]> {
  const admitted = await processes.race({ members, keys, asks: ASKS, inFlight: IN_FLIGHT })
  return keys.map((key) => admitted[key]!)
}

/** Units that each limit of each member would still admit to each key, as another process sees it. */
async function leftOn(place: string, members: readonly MemberData[], keys: readonly string[]): Promise<number[][]> {
  const client =
    place === 'a cluster'
      ? new Cluster([{ host: '127.0.0.1', port: cluster.nodes[0]!.port }])
      : new Redis(redis.server.port)
  afterTest(() => client.disconnect())
  const store = redisStore(client)
  const limiters = members.map(({ name, key, limits }) =>
    createLimiter({ name, store, keyer: (given: string) => key ?? given, limits: limits.map((each) => limit(each)) }),
  )
  const limiter = stack(...limiters)
  return Promise.all(keys.map((key) => left(limiter, key)))
}

describe.each(['one server', 'a cluster'])('processes that race for a limit on %s', (place) => {
  beforeAll(() => start(place))
  afterAll(() => processes.kill())

  it('are admitted what the least of several limits of one key allows, and the others keep the rest', async () => {
    const limits = HARD.map((each, i) => ({ ...each, name: `limit-${i}` }))
    const least = { algorithm: 'slidingWindowLog', quota: 31, window: YEAR, name: 'least' }
    const members = [{ name: `race-${runs++}`, limits: [...limits, least] }]
    expect(await race(members, ['a', 'b'])).toEqual([31, 31])
    const held = [...HARD.map(() => 66), 0]
    expect(await leftOn(place, members, ['a', 'b'])).toEqual([held, held])
  })

  it('are admitted what the least of a stack with keys in one slot allows', async () => {
    const run = runs++
    const members = HARD.map((each, i) => ({ name: `race-${run}-${i}`, key: '{same}', limits: [each] }))
    const least = { name: `race-${run}-least`, key: '{same}', limits: [{ algorithm: 'gcra', quota: 41, window: YEAR }] }
    expect(await race([...members, least], ['any'])).toEqual([41])
    expect(await leftOn(place, [...members, least], ['any'])).toEqual([[...HARD.map(() => 56), 0]])
  })

  it('never get one too many from a stack over several slots, and what is denied is refunded', async () => {
    const run = runs++
    const keys = ['a', 'b', 'c', 'd', 'e', 'f']
    const perKey = { name: `each-${run}`, limits: HARD.map((each, i) => Object.assign({ name: `limit-${i}` }, each)) }
    const shared = {
      name: `all-${run}`,
      key: 'everyone',
      limits: [{ algorithm: 'fixedWindow', quota: 60, window: YEAR }],
    }
    const admitted = await race([perKey, shared], keys)
    expect(admitted.reduce((sum, each) => sum + each, 0)).toBe(60)
    const found = await leftOn(place, [perKey, shared], keys)
    for (const [i, remaining] of found.entries()) {
      expect(remaining.pop()).toBe(0)
      // What may have drained while it was reserved is kept, and that is far less than a unit.
      for (const each of remaining) expect([97 - admitted[i]!, 97 - admitted[i]! - 1]).toContain(each)
    }
  })
})
