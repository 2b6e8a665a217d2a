// Measures the memory of a memory store while it counts under many quotas or names, and afterwards. Run with --expose-gc.
import { createLimiter, memoryStore, perMinute, perSecond, slidingWindowLog } from '../../dist/src/index.js'
import { heldBytes } from './held-bytes.mjs'

let time = 1_767_225_600_000
const clock = { now: () => time }
const onFull = () => undefined
const identity = (key) => key

/** Lets everything expire, and the store find it: it has no timer, and sweeps as it is used. */
function settleDown(limiter) {
  time += 600_000
  limiter.consume('regular')
  time += 600_000
  for (let i = 0; i < 200_000; i++) limiter.consume('regular')
}

const scenarios = {
  /** 200 customers with a quota each, beyond the most keys. Then all of them stay away. */
  async quotas() {
    const empty = await heldBytes()
    const store = memoryStore({ maxKeys: 100_000, clock, onFull })
    const limits = Array.from({ length: 200 }, (_, i) => perMinute(10 + i, { name: 'plan' }))
    const limiter = createLimiter({ keyer: ({ key }) => key, limits: ({ limit }) => limit, store })
    for (let i = 0; i < 100_000; i++) limiter.consume({ key: `key ${i}`, limit: limits[0] })
    const before = await heldBytes()
    for (let i = 0; i < 2000; i++) limiter.consume({ key: `customer ${i}`, limit: limits[i % 200] })
    const grown = (await heldBytes()) - before
    for (let i = 0; i < 100_000; i++) limiter.consume({ key: `other ${i}`, limit: limits[i % 200] })
    const flooded = (await heldBytes()) - before
    settleDown({ consume: (key) => limiter.consume({ key, limit: limits[0] }) })
    return { grown, flooded, left: (await heldBytes()) - empty }
  },

  /** A limit function that returns a limit with a different name for each request. */
  async limitNames() {
    const store = memoryStore({ clock })
    const usual = perSecond(1)
    const limits = (key) => (key === 'regular' ? usual : perMinute(10, { name: `of ${key}` }))
    const limiter = createLimiter({ keyer: identity, limits, store })
    const marks = []
    const before = await heldBytes()
    for (let i = 0; i < 40_000; i++) {
      if (i === 20_000) marks.push((await heldBytes()) - before)
      limiter.consume(`user ${i}`)
    }
    marks.push((await heldBytes()) - before)
    settleDown(limiter)
    return { marks, left: (await heldBytes()) - before }
  },

  /** A limiter with a different name for each user, all on one store, each used once and dropped. */
  async limiterNames() {
    const store = memoryStore({ clock })
    const regular = createLimiter({ keyer: identity, limits: perSecond(1), store })
    const before = await heldBytes()
    for (let i = 0; i < 40_000; i++) {
      createLimiter({ name: `user ${i}`, keyer: identity, limits: perMinute(10), store }).consume('a')
      if (i % 10_000 === 0) await new Promise(setImmediate)
    }
    const grown = (await heldBytes()) - before
    settleDown(regular)
    return { grown, left: (await heldBytes()) - before }
  },

  /** Twenty keys with 400,000 entries, which expire while the keys are in use and then together with them. */
  async entries() {
    const store = memoryStore({ clock })
    const limiter = createLimiter({
      keyer: identity,
      limits: slidingWindowLog({ quota: 20_000, window: '1m' }),
      store,
    })
    const before = await heldBytes()
    const fill = () => {
      for (let i = 0; i < 400_000; i++) {
        limiter.consume(`busy-${i % 20}`)
        time += 0.001
      }
    }
    fill()
    const grown = (await heldBytes()) - before
    time += 60_000
    for (let i = 0; i < 100; i++) limiter.consume(`busy-${i % 20}`)
    const inUse = (await heldBytes()) - before
    fill()
    settleDown(limiter)
    return { grown, inUse, left: (await heldBytes()) - before }
  },
}

console.log(JSON.stringify(await scenarios[process.argv[2]]()))
