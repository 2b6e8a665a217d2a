import type { Limit } from '../../src/engine/limit.ts'

/**
 * Simple, slow models of all algorithms, from their definitions. Requests are in plain arrays. Sums are exact rationals, as
 * `bigint` over a common denominator.
 */
export interface Model {
  /** True if a request of cost `n` is admitted at `t`. */
  admits(t: number, n: number): boolean
  /** Returns the units that are admitted at `t`. */
  remaining(t: number): number
  /** Charges an admitted request. */
  charge(t: number, n: number): void
  /** Charges a denied request (`strict`). */
  saturate(t: number, n: number): void
  /** Notes a denied request. */
  see(t: number): void
}

/** Returns the model of a limit. `W` is its window in ticks. */
export function modelOf(limit: Limit, W: number): Model | undefined {
  const L = limit.quota
  const B = ((limit['burst'] ?? limit['capacity']) as number | undefined) ?? L
  const initial = limit['initial'] as number | undefined
  switch (limit.algorithm) {
    case 'gcra':
    case 'leakyBucket':
    case 'spacing':
      return leaking(L, W, B, undefined)
    case 'tokenBucket':
      return limit['refill'] === 'interval' ? intervals(L, W, B, initial) : leaking(L, W, B, initial)
    case 'fixedWindow':
      return fixed(
        L,
        W,
        limit['anchor'] === 'clock' || limit['anchor'] === 'calendar'
          ? (W / limit.window) * ((limit['offset'] as number) ?? 0)
          : undefined,
      )
    case 'slidingWindowCounter':
      return counter(L, W)
    case 'slidingWindowLog':
    case 'concurrent':
      return sliding(L, (e, t) => t < e + W)
    case 'slidingWindowBuckets': {
      const K = (limit['buckets'] as number | undefined) ?? 10
      const bucket = (t: number): number => Math.floor(t / (W / K))
      return sliding(L, (e, t) => bucket(e) >= bucket(t) - K)
    }
    case 'quotaLinear':
      return hybrid(L, W)
    default:
      return undefined
  }
}

const whole = (n: number): bigint => BigInt(n)

/** A bucket that leaks `L` units per `W`. The level is multiplied by `W`. */
function leaking(L: number, W: number, B: number, initial: number | undefined): Model {
  let level = 0n
  let last: number | undefined
  const startsPartFull = initial !== undefined && initial < B
  // The key is new again after a full bucket for one window.
  const isNew = (t: number): boolean =>
    last === undefined || level - whole(t - last) * whole(L) + whole(W) * whole(L) <= 0n
  const at = (t: number): bigint => {
    if (last === undefined || (startsPartFull && isNew(t)))
      return initial === undefined ? 0n : whole(B - initial) * whole(W)
    const left = level - whole(t - last) * whole(L)
    return left > 0n ? left : 0n
  }
  const space = (t: number): bigint => whole(B) * whole(W) - at(t)
  const set = (t: number, to: bigint): void => {
    level = to
    last = t
  }
  return {
    admits: (t, n) => whole(n) * whole(W) <= space(t),
    remaining: (t) => Math.max(0, Number(space(t) / whole(W))),
    charge: (t, n) => set(t, at(t) + whole(n) * whole(W)),
    saturate: (t) => set(t, whole(B) * whole(W)),
    // A bucket that does not start full starts to fill with the first request.
    see: (t) => {
      if (startsPartFull && isNew(t)) set(t, at(t))
    },
  }
}

/** `L` tokens return at once every `W`. */
function intervals(L: number, W: number, B: number, initial: number | undefined): Model {
  const birth = initial === undefined ? 0 : B - initial
  let used = 0
  let start: number | undefined
  const pass = (t: number): { used: number; start: number } => {
    if (start === undefined) return { used: birth, start: t }
    let now = { used, start }
    while (now.used > 0 && t >= now.start + W) now = { used: Math.max(0, now.used - L), start: now.start + W }
    if (now.used > 0) return now
    const isNew = birth === 0 || t >= now.start + W
    return { used: isNew ? birth : 0, start: t }
  }
  const set = (to: { used: number; start: number }): void => {
    used = to.used
    start = to.start
  }
  const isNew = (t: number): boolean => start === undefined || (pass(t).start === t && pass(t).used === birth)
  return {
    admits: (t, n) => pass(t).used + n <= B,
    remaining: (t) => Math.max(0, B - pass(t).used),
    charge: (t, n) => set({ used: pass(t).used + n, start: pass(t).start }),
    saturate: (t) => set({ used: B, start: pass(t).start }),
    see: (t) => {
      if (birth > 0 && isNew(t)) set(pass(t))
    },
  }
}

/** Counts the requests in the window of `t`. `offset` is for windows on the clock. */
function fixed(L: number, W: number, offset: number | undefined): Model {
  const requests: { t: number; n: number; opens?: true }[] = []
  const used = (t: number): number => {
    let start = -Infinity
    let sum = 0
    for (const each of [...requests, { t, n: 0 }]) {
      if (each.t >= start + W || each.opens) {
        start = offset === undefined ? each.t : each.t - ((((each.t - offset) % W) + W) % W)
        sum = 0
      }
      sum += each.n
    }
    return sum
  }
  return {
    admits: (t, n) => used(t) + n <= L,
    remaining: (t) => L - used(t),
    charge: (t, n) => requests.push({ t, n }),
    saturate: (t) => requests.push({ t, n: L, opens: true }),
    see: () => undefined,
  }
}

/** Counts requests in each window on the clock. */
function counter(L: number, W: number): Model {
  const counts = new Map<number, number>()
  const estimate = (t: number): number => {
    const w = Math.floor(t / W)
    const left = W - (t - w * W)
    const weighted = (whole(counts.get(w - 1) ?? 0) * whole(left)) / whole(W)
    return (counts.get(w) ?? 0) + Number(weighted)
  }
  const add = (t: number, n: number): void => {
    counts.set(Math.floor(t / W), (counts.get(Math.floor(t / W)) ?? 0) + n)
  }
  return {
    admits: (t, n) => estimate(t) + n <= L,
    remaining: (t) => Math.max(0, L - estimate(t)),
    charge: add,
    saturate: (t, n) => add(t, Math.max(0, Math.min(n, 2 * L - estimate(t)))),
    see: () => undefined,
  }
}

/** Keeps all requests. `counts` is true if a request at `e` still counts at `t`. */
function sliding(L: number, counts: (e: number, t: number) => boolean): Model {
  const requests: { t: number; n: number }[] = []
  const sum = (t: number): number => requests.reduce((total, each) => total + (counts(each.t, t) ? each.n : 0), 0)
  return {
    admits: (t, n) => sum(t) + n <= L,
    remaining: (t) => L - sum(t),
    charge: (t, n) => requests.push({ t, n }),
    saturate: (t, n) => {
      requests.push({ t, n: Math.min(n, L) })
      for (const each of requests) {
        if (!counts(each.t, t)) continue
        each.n -= Math.min(each.n, Math.max(0, sum(t) - L))
      }
    },
    see: () => undefined,
  }
}

interface Client {
  /** Tokens multiplied by `window`. */
  bucket: bigint
  time: bigint
  mode: 'BURSTY' | 'SMOOTH'
}

/** Finch's pseudo-code, clause by clause. Tokens are multiplied by `window`, so that `rate` is `quota`. */
function finch(quota: bigint, window: bigint, c: Client | undefined, now: bigint): { allow: boolean; c: Client } {
  const one = window
  const reset = (): { allow: boolean; c: Client } => ({
    allow: true,
    c: { bucket: quota * one - one, time: now, mode: 'BURSTY' },
  })
  if (c === undefined) return reset()
  if (c.mode === 'BURSTY' && c.time + window <= now) return reset()
  if (c.mode === 'BURSTY' && c.bucket === one) {
    const remaining = c.time + window - now
    return { allow: true, c: { bucket: -remaining * quota + one, time: now, mode: 'SMOOTH' } }
  }
  const next = { ...c }
  if (next.mode === 'SMOOTH') {
    next.bucket += (now - next.time) * quota
    next.time = now
  }
  if (next.mode === 'SMOOTH' && next.bucket >= quota * one) return reset()
  if (next.bucket < one) return { allow: false, c: next }
  next.bucket -= one
  return { allow: true, c: next }
}

/** The article's algorithm. A request of several units is several requests in one tick, all or none. */
function hybrid(L: number, W: number): Model {
  let client: Client | undefined
  const run = (t: number, n: number): { done: number; c: Client | undefined } => {
    let c = client
    for (let done = 0; done < n; done++) {
      const step = finch(whole(L), whole(W), c, whole(t))
      if (!step.allow) return { done, c }
      c = step.c
    }
    return { done: n, c }
  }
  return {
    admits: (t, n) => n <= L && run(t, n).done === n,
    remaining: (t) => run(t, L).done,
    charge: (t, n) => {
      client = run(t, n).c
    },
    saturate: () => {
      throw new Error('the article knows no strict mode')
    },
    see: (t) => {
      if (client !== undefined)
        client = finch(whole(L), whole(W), client, whole(t)).allow
          ? client
          : finch(whole(L), whole(W), client, whole(t)).c
    },
  }
}
