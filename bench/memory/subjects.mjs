import { createRequire } from 'node:module'
import { createLimiter, memoryStore } from 'sluice'

const require = createRequire(import.meta.url)

/** What a `memoryStore()` keeps when nothing is said. */
const USUAL_KEYS = 1_000_000
/** Where a store is bounded, its bound is this when nothing is to be left out. */
export const MOST_KEYS = 16_000_000

/**
 * What decides: a function from a key to an answer, and whether the answer comes at once.
 * @typedef {{ decide: (key: string) => unknown, sync: boolean }} Subject
 */

/** The clock that `memoryStore()` reads, a `Map`, and a slot of a `Float64Array`: what a decision cannot do without. */
function floor() {
  const { timeOrigin } = performance
  const slots = new Map()
  let cells = new Float64Array(16)
  return {
    sync: true,
    decide(key) {
      const now = timeOrigin + performance.now()
      let slot = slots.get(key)
      if (slot === undefined) {
        slot = slots.size
        if (slot === cells.length) {
          const larger = new Float64Array(2 * slot)
          larger.set(cells)
          cells = larger
        }
        slots.set(key, slot)
      }
      const before = cells[slot]
      cells[slot] = now
      return before < now
    },
  }
}

/** A whole `check`: keyer, limits, decision and all. */
export function sluice(limits, options = {}) {
  const limiter = createLimiter({ keyer: (key) => key, limits, store: memoryStore(options) })
  return { sync: true, decide: (key) => limiter.check(key) }
}

function fastify({ quota, windowMs }) {
  const LocalStore = require('@fastify/rate-limit/store/LocalStore.js')
  const store = new LocalStore(false, false, MOST_KEYS)
  let answer
  const keep = (_error, result) => void (answer = result)
  return {
    sync: true,
    decide(key) {
      store.incr(key, keep, windowMs, quota)
      return answer
    },
  }
}

async function hono({ windowMs }) {
  const { MemoryStore } = await import('hono-rate-limiter')
  const store = new MemoryStore()
  store.init({ windowMs })
  return { sync: true, decide: (key) => store.increment(key) }
}

async function express({ windowMs }) {
  const { MemoryStore } = await import('express-rate-limit')
  const store = new MemoryStore()
  store.init({ windowMs })
  return { sync: false, decide: (key) => store.increment(key) }
}

/** A token bucket a key, as its README makes them. */
async function limiter({ quota, windowMs }) {
  const { RateLimiter } = await import('limiter')
  const limiters = new Map()
  return {
    sync: true,
    decide(key) {
      let limiter = limiters.get(key)
      if (limiter === undefined) {
        limiter = new RateLimiter({ tokensPerInterval: quota, interval: windowMs })
        limiters.set(key, limiter)
      }
      return limiter.tryRemoveTokens(1)
    },
  }
}

/** It denies by rejecting, so whoever asks must catch. */
async function flexible({ quota, windowMs }) {
  const { RateLimiterMemory } = await import('rate-limiter-flexible')
  const limiter = new RateLimiterMemory({ points: quota, duration: windowMs / 1000 })
  return {
    sync: false,
    async decide(key) {
      try {
        return await limiter.consume(key)
      } catch (denial) {
        return denial
      }
    },
  }
}

/**
 * By name, the floor and ours first.
 * @type {Record<string, (terms: import('./limits.mjs').Terms, keys: number) => Subject | Promise<Subject>>}
 */
export const subjects = {
  floor,
  sluice: (terms, keys) => sluice([terms.limit()], keys > USUAL_KEYS ? { maxKeys: MOST_KEYS } : {}),
  '@fastify/rate-limit': fastify,
  'hono-rate-limiter': hono,
  'express-rate-limit': express,
  limiter,
  'rate-limiter-flexible': flexible,
}
