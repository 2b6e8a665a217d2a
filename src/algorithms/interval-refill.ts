import {
  type Algorithm,
  LARGEST,
  type Outcome,
  type Parameters,
  type PlanInput,
  rescale,
  restart,
} from '../algorithm.ts'
import { refuse, wholeNumber } from '../validate.ts'

/**
 * `tokenBucket` with `refill: 'interval'`: `quota` tokens come back at once, every `window`.
 *
 * State `(used, start)`: tokens taken, and when the interval began in which they were last counted. A full bucket has no
 * phase: the next request begins an interval. With `initial` a key that has been full for a window is new again.
 */
type Name = 'quota' | 'window' | 'capacity' | 'start' | 'idle'

function plan(input: PlanInput): Readonly<Record<Name, number>> {
  const capacity = wholeNumber('capacity', input.own['capacity'] ?? input.quota)
  const born = initialTokens(input.own['initial'], capacity)
  const birth = born === undefined ? { start: 0, idle: 0 } : { start: capacity - born.initial, idle: 1 }
  return { quota: input.quota, window: input.window, capacity, ...birth }
}

function step(p: Parameters<Name>, s: Float64Array, at: number, now: number, n: number, out: Outcome): void {
  const u = s[at]!
  const full = Math.ceil(u / p.quota)
  const k = Math.floor(Math.max(0, now - s[at + 1]!) / p.window)
  const born = k >= full + p.idle
  const t = born ? now : Math.max(now, s[at + 1]!)
  const u0 = born ? p.start : k >= full ? 0 : u - k * p.quota
  const start = u0 === 0 || born ? t : s[at + 1]! + k * p.window

  const allowed = n === 0 || n <= p.capacity - u0
  const persist = !allowed && (p.strict === 1 || (born && p.start > 0))
  const kept = allowed ? u0 + n : p.strict === 1 ? Math.max(u0, p.capacity) : u0

  const touched = persist || (allowed && n > 0)
  const wait = start + Math.ceil((kept + n - p.capacity) / p.quota) * p.window - now
  const end = touched
    ? start + (Math.ceil(kept / p.quota) + p.idle) * p.window
    : s[at + 1]! + (full + p.idle) * p.window

  out.allowed = allowed
  out.at = t
  out.retry = allowed ? 0 : n > p.capacity ? Infinity : wait
  out.remaining = Math.max(0, p.capacity - kept)
  out.reset = touched || !born ? end - now : 0
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = kept
  out.next[1] = start
}

function adjust(
  p: Parameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  then: number,
  units: number,
  out: Outcome,
): void {
  const u = s[at]!
  const full = Math.ceil(u / p.quota)
  const k = Math.floor(Math.max(0, now - s[at + 1]!) / p.window)
  const born = k >= full + p.idle
  const t = born ? now : Math.max(now, s[at + 1]!)
  const u0 = born ? p.start : k >= full ? 0 : u - k * p.quota
  const start = u0 === 0 || born ? t : s[at + 1]! + k * p.window

  const most = Math.min(LARGEST, Math.floor(LARGEST / p.window) * p.quota)
  // There may have been one refill more than whole windows, unless the one that counts from now was before the charge.
  const refills = p.cautious === 1 && then < start ? Math.floor((now - then) / p.window) + 1 : 0
  const change = units < 0 ? Math.min(0, units + refills * p.quota) : units
  const kept = Math.min(Math.max(0, u0 + change), most)
  out.persist = units > 0 || (!born && u0 > 0)
  out.next[0] = kept
  out.next[1] = kept === 0 ? t : start
}

function convert(
  p: Parameters<Name>,
  from: Parameters<Name>,
  s: Float64Array,
  at: number,
  now: number,
  out: Outcome,
): void {
  const u = s[at]!
  const full = Math.ceil(u / from.quota)
  const k = Math.floor(Math.max(0, rescale(now, p, from) - s[at + 1]!) / from.window)
  const fresh = k >= full + from.idle
  const u0 = k >= full ? 0 : u - k * from.quota
  const start = -rescale(-(s[at + 1]! + k * from.window), from, p)
  const same = from.window / from.perMs === p.window / p.perMs
  out.next[0] = fresh ? 0 : Math.min(u0, p.capacity)
  out.next[1] = fresh ? -Infinity : same && u0 > 0 ? start : Math.max(now, -rescale(-s[at + 1]!, from, p))
}

const lua = `
local function step(p, s, now, n, out)
  local u = s[1]
  local full = ceil(u / p.quota)
  local k = floor(max(0, now - s[2]) / p.window)
  local born = k >= full + p.idle
  local t = born and now or max(now, s[2])
  local u0 = born and p.start or k >= full and 0 or u - k * p.quota
  local start = (u0 == 0 or born) and t or s[2] + k * p.window

  local allowed = n == 0 or n <= p.capacity - u0
  local persist = not allowed and (p.strict == 1 or (born and p.start > 0))
  local kept = allowed and u0 + n or p.strict == 1 and max(u0, p.capacity) or u0

  local touched = persist or (allowed and n > 0)
  local wait = start + ceil((kept + n - p.capacity) / p.quota) * p.window - now
  local last = touched and start + (ceil(kept / p.quota) + p.idle) * p.window or s[2] + (full + p.idle) * p.window

  out.allowed = allowed
  out.at = t
  out.retry = allowed and 0 or n > p.capacity and huge or wait
  out.remaining = max(0, p.capacity - kept)
  out.reset = (touched or not born) and last - now or 0
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[1] = kept
  out.next[2] = start
end

local function adjust(p, s, now, when, units, out)
  local u = s[1]
  local full = ceil(u / p.quota)
  local k = floor(max(0, now - s[2]) / p.window)
  local born = k >= full + p.idle
  local t = born and now or max(now, s[2])
  local u0 = born and p.start or k >= full and 0 or u - k * p.quota
  local start = (u0 == 0 or born) and t or s[2] + k * p.window

  local most = min(LARGEST, floor(LARGEST / p.window) * p.quota)
  local refills = p.cautious == 1 and when < start and floor((now - when) / p.window) + 1 or 0
  local change = units < 0 and min(0, units + refills * p.quota) or units
  local kept = min(max(0, u0 + change), most)
  out.persist = units > 0 or (not born and u0 > 0)
  out.next[1] = kept
  out.next[2] = kept == 0 and t or start
end

local function convert(p, from, s, now, out)
  local u = s[1]
  local full = ceil(u / from.quota)
  local k = floor(max(0, rescale(now, p, from) - s[2]) / from.window)
  local fresh = k >= full + from.idle
  local u0 = k >= full and 0 or u - k * from.quota
  local start = -rescale(-(s[2] + k * from.window), from, p)
  local same = from.window / from.perMs == p.window / p.perMs
  out.next[1] = fresh and 0 or min(u0, p.capacity)
  out.next[2] = fresh and -huge or same and u0 > 0 and start or max(now, -rescale(-s[2], from, p))
end

return { step = step, adjust = adjust, convert = convert }
`

/** Token bucket with interval refill. */
export const tokenBucketInterval: Algorithm<Name> = {
  name: 'tokenBucketInterval',
  options: ['capacity', 'refill', 'initial'],
  parameters: ['quota', 'window', 'capacity', 'start', 'idle'],
  blank: [0, -Infinity],
  plan,
  largest: (p) => (Math.ceil(p.capacity / p.quota) + 1) * p.window,
  step,
  adjust,
  convert,
  share: (_, out) => restart(out, 1),
  lua,
}

/** `initial`, when it is given and is not simply a full bucket. */
export function initialTokens(given: unknown, capacity: number): { initial: number } | undefined {
  if (given === undefined) return undefined
  const initial = wholeNumber('initial', given, 0)
  if (initial > capacity) refuse('initial', `at most the capacity, ${capacity}`, initial)
  return initial === capacity ? undefined : { initial }
}
