import { createRequire } from 'node:module'
import { consumer } from '../lib/entry.mjs'

const require = createRequire(import.meta.url)

/** The bound of a store that must keep every key. */
export const MOST_KEYS = 8_000_000

/**
 * What decides: a function from a key to a result, and whether the result is returned at once.
 * @typedef {{ decide: (key: string) => unknown, sync: boolean }} Subject
 */

/** What a decision needs at least: the clock of the store in whole microseconds, a `Map`, a slot of a `Float64Array`. */
function floor() {
  const now = microsecondClock()
  const slots = new Map()
  let cells = new Float64Array(16)
  return {
    sync: true,
    decide(key) {
      const time = now()
      let slot = slots.get(key)
      if (slot === undefined) {
        slot = slots.size
        if (slot === cells.length) cells = grown(cells)
        slots.set(key, slot)
      }
      const before = cells[slot]
      cells[slot] = time
      return before < time
    },
  }
}

function grown(cells) {
  const larger = new Float64Array(2 * cells.length)
  larger.set(cells)
  return larger
}

/** `process.hrtime()` and an origin. */
function microsecondClock() {
  const [seconds, nanoseconds] = process.hrtime()
  const elapsed = seconds * 1e6 + Math.round(nanoseconds / 1000)
  const origin = Math.round((performance.timeOrigin + performance.now()) * 1000) - elapsed
  return () => {
    const time = process.hrtime()
    return origin + time[0] * 1e6 + Math.round(time[1] / 1000)
  }
}

/** A limiter of a build with the whole path: keyer, limits and decision. */
export function limiterOf(sluice, limits, storeOptions = {}) {
  return sluice.createLimiter({ keyer: (key) => key, limits, store: sluice.memoryStore(storeOptions) })
}

/** @returns {Subject} */
export function ours(sluice, limits, storeOptions) {
  return { sync: true, decide: consumer(limiterOf(sluice, limits, storeOptions)) }
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

/** A token bucket per key, made as its README does. */
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

/** It denies by rejecting, so the caller catches. */
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
 * The floor and the peers, made from the terms that they enforce.
 * @type {Record<string, (terms: { quota: number, windowMs: number }) => Subject | Promise<Subject>>}
 */
export const others = {
  floor,
  '@fastify/rate-limit': fastify,
  'hono-rate-limiter': hono,
  'express-rate-limit': express,
  limiter,
  'rate-limiter-flexible': flexible,
}

export const PEERS = Object.keys(others).filter((name) => name !== 'floor')
