import type { Algorithm, Outcome, Parameters } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'

/**
 * `slidingWindowCounter`, the "moving window": two neighbouring windows on the clock, the older one weighted by how much of it
 * the sliding window still covers.
 *
 * State `(w, cur, prev)`: the window's number since the epoch, what it holds, what the one before it held.
 * `est = cur + ⌊prev · (window − e) / window⌋` with `e` the time since the window began. An estimate: up to twice the quota can
 * pass within a window, when it came at the end of one and the start of the next but one.
 */
type Name = 'quota' | 'window'

/** What `advance` returns. One object serves every call, so that a step allocates nothing. */
const advanced = { time: 0.5, number: 0.5, current: 0.5, previous: 0.5 }

/** Returns the time that counts at `now`, the number of its window, and what it and the one before it hold. */
function advance(params: Parameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const number = cells[offset]!
  const current = cells[offset + 1]!
  const previous = cells[offset + 2]!
  const time = current > 0 || previous > 0 ? Math.max(now, number * params.window) : now
  const latest = Math.floor(time / params.window)
  advanced.time = time
  advanced.number = latest
  advanced.current = latest === number ? current : 0
  advanced.previous = latest === number ? previous : latest === number + 1 ? current : 0
  return advanced
}

function step(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  cost: number,
  out: Outcome,
): void {
  const { quota, window } = params
  const { time, number, current, previous } = advance(params, cells, offset, now)
  const elapsed = time - number * window
  const weighted = Math.floor((previous * (window - elapsed)) / window)

  const allowed = cost === 0 || cost <= quota - current - weighted
  const persist = !allowed && params.strict === 1
  const kept = allowed ? current + cost : persist ? Math.max(current, quota - weighted) : current

  // Until the older window weighs little enough, or else until this one has become the older and does.
  const lag = time - now
  const room = quota - kept - cost
  const later = Math.max(0, window - Math.floor(((quota - cost + 1) * window - 1) / kept))
  const soon = window - Math.floor(((room + 1) * window - 1) / previous) - elapsed
  const wait = room < 0 ? window - elapsed + later : soon
  const retry = allowed ? 0 : cost > quota ? Infinity : wait
  const reset = kept > 0 ? 2 * window - elapsed : previous > 0 ? window - elapsed : 0

  out.allowed = allowed
  out.at = time
  out.retry = retry > 0 ? retry + lag : 0
  out.remaining = Math.max(0, quota - kept - weighted)
  out.reset = reset > 0 ? reset + lag : 0
  out.delay = 0
  out.charged = cost
  out.persist = persist
  out.next[0] = number
  out.next[1] = kept
  out.next[2] = previous
}

function adjust(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  chargedAt: number,
  units: number,
  out: Outcome,
): void {
  const { window } = params
  const { number, current, previous } = advance(params, cells, offset, now)
  const charged = Math.floor(chargedAt / window)
  const isOlder = units < 0 && charged === number - 1
  const held = isOlder ? previous : charged === number ? current : 0
  out.persist = units > 0 || held > 0
  out.next[0] = number
  out.next[1] = isOlder ? current : Math.min(Math.max(0, current + units), Math.floor(LARGEST / window))
  out.next[2] = isOlder ? Math.max(0, previous + units) : previous
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const { quota, window } = params
  const { time, number, current, previous } = advance(from, cells, offset, rescale(now, params, from))
  const left = from.window - (time - number * from.window)
  const isSame = from.window / from.perMs === window / params.perMs

  // The same grid: each window is capped, the older one so that both together are. Another: the estimate moves into one.
  const used = Math.min(isSame ? current : current + Math.ceil((previous * left) / from.window), quota)
  const start = Math.max(now, -rescale(-number * from.window, from, params))
  const next = Math.floor(start / window)
  const fits = Math.floor(((quota - used + 1) * window - 1) / (window - (start - next * window)))
  out.next[0] = current > 0 || previous > 0 ? next : 0
  out.next[1] = used
  out.next[2] = isSame ? Math.min(previous, fits) : 0
}

/** Saturated, the older window may be another's: whoever was charged may have filled the newer one. */
function toShared(params: Parameters<Name>, out: Outcome): void {
  if (out.allowed) return
  if (out.next[1] === 0) out.reset += params.window
  out.next[1] = Math.max(out.next[1]!, params.quota)
}

const lua = `
local function step(p, s, now, n, out)
  local t = (s[2] > 0 or s[3] > 0) and max(now, s[1] * p.window) or now
  local w = floor(t / p.window)
  local cur = w == s[1] and s[2] or 0
  local prev = w == s[1] and s[3] or w == s[1] + 1 and s[2] or 0
  local e = t - w * p.window
  local weighted = floor((prev * (p.window - e)) / p.window)

  local allowed = n == 0 or n <= p.quota - cur - weighted
  local persist = not allowed and p.strict == 1
  local kept = allowed and cur + n or persist and max(cur, p.quota - weighted) or cur

  local a = p.quota - kept - n
  local later = max(0, p.window - floor(((p.quota - n + 1) * p.window - 1) / kept))
  local wait = a < 0 and p.window - e + later or p.window - floor(((a + 1) * p.window - 1) / prev) - e
  local retry = allowed and 0 or n > p.quota and huge or wait
  local reset = kept > 0 and 2 * p.window - e or prev > 0 and p.window - e or 0

  out.allowed = allowed
  out.at = t
  out.retry = retry == 0 and 0 or retry + (t - now)
  out.remaining = max(0, p.quota - kept - weighted)
  out.reset = reset == 0 and 0 or reset + (t - now)
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[1] = w
  out.next[2] = kept
  out.next[3] = prev
end

local function adjust(p, s, now, before, units, out)
  local t = (s[2] > 0 or s[3] > 0) and max(now, s[1] * p.window) or now
  local w = floor(t / p.window)
  local cur = w == s[1] and s[2] or 0
  local prev = w == s[1] and s[3] or w == s[1] + 1 and s[2] or 0

  local charged = floor(before / p.window)
  local older = units < 0 and charged == w - 1
  local most = floor(LARGEST / p.window)
  local held = older and prev or charged == w and cur or 0
  out.persist = units > 0 or held > 0
  out.next[1] = w
  out.next[2] = older and cur or min(max(0, cur + units), most)
  out.next[3] = older and max(0, prev + units) or prev
end

local function convert(p, from, s, now, out)
  local t = max(rescale(now, p, from), s[1] * from.window)
  local w = floor(t / from.window)
  local cur = w == s[1] and s[2] or 0
  local prev = w == s[1] and s[3] or w == s[1] + 1 and s[2] or 0
  local left = from.window - (t - w * from.window)
  local same = from.window / from.perMs == p.window / p.perMs

  local used = min(same and cur or cur + ceil((prev * left) / from.window), p.quota)
  local time = max(now, -rescale(-w * from.window, from, p))
  local into = floor(time / p.window)
  local fits = floor(((p.quota - used + 1) * p.window - 1) / (p.window - (time - into * p.window)))
  out.next[1] = (cur > 0 or prev > 0) and into or 0
  out.next[2] = used
  out.next[3] = same and min(prev, fits) or 0
end

return { step = step, adjust = adjust, convert = convert }
`

/** Sliding window counter: two windows on the clock, the older one weighted. */
export const slidingWindowCounter: Algorithm<Name> = {
  name: 'slidingWindowCounter',
  options: [],
  parameters: ['quota', 'window'],
  cells: [{ name: 'window' }, { name: 'current' }, { name: 'previous' }],
  initialState: [0, 0, 0],
  deriveParameters: (input) => ({ quota: input.quota, window: input.window }),
  maxValue: (params) => (params.quota + 1) * params.window,
  step,
  adjust,
  convert,
  toShared,
  lua,
}
