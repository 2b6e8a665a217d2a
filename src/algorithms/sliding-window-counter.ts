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

function step(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  n: number,
  out: Outcome,
): void {
  const t = cells[offset + 1]! > 0 || cells[offset + 2]! > 0 ? Math.max(now, cells[offset]! * params.window) : now
  const w = Math.floor(t / params.window)
  const cur = w === cells[offset] ? cells[offset + 1]! : 0
  const prev = w === cells[offset] ? cells[offset + 2]! : w === cells[offset]! + 1 ? cells[offset + 1]! : 0
  const e = t - w * params.window
  const weighted = Math.floor((prev * (params.window - e)) / params.window)

  const allowed = n === 0 || n <= params.quota - cur - weighted
  const persist = !allowed && params.strict === 1
  const kept = allowed ? cur + n : persist ? Math.max(cur, params.quota - weighted) : cur

  // Until the older window weighs little enough, or else until this one has become the older and does.
  const a = params.quota - kept - n
  const later = Math.max(0, params.window - Math.floor(((params.quota - n + 1) * params.window - 1) / kept))
  const wait = a < 0 ? params.window - e + later : params.window - Math.floor(((a + 1) * params.window - 1) / prev) - e
  const retry = allowed ? 0 : n > params.quota ? Infinity : wait
  const reset = kept > 0 ? 2 * params.window - e : prev > 0 ? params.window - e : 0

  out.allowed = allowed
  out.at = t
  out.retry = retry === 0 ? 0 : retry + (t - now)
  out.remaining = Math.max(0, params.quota - kept - weighted)
  out.reset = reset === 0 ? 0 : reset + (t - now)
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = w
  out.next[1] = kept
  out.next[2] = prev
}

function adjust(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  then: number,
  units: number,
  out: Outcome,
): void {
  const t = cells[offset + 1]! > 0 || cells[offset + 2]! > 0 ? Math.max(now, cells[offset]! * params.window) : now
  const w = Math.floor(t / params.window)
  const cur = w === cells[offset] ? cells[offset + 1]! : 0
  const prev = w === cells[offset] ? cells[offset + 2]! : w === cells[offset]! + 1 ? cells[offset + 1]! : 0

  const charged = Math.floor(then / params.window)
  const older = units < 0 && charged === w - 1
  const most = Math.floor(LARGEST / params.window)
  const held = older ? prev : charged === w ? cur : 0
  out.persist = units > 0 || held > 0
  out.next[0] = w
  out.next[1] = older ? cur : Math.min(Math.max(0, cur + units), most)
  out.next[2] = older ? Math.max(0, prev + units) : prev
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const t = Math.max(rescale(now, params, from), cells[offset]! * from.window)
  const w = Math.floor(t / from.window)
  const cur = w === cells[offset] ? cells[offset + 1]! : 0
  const prev = w === cells[offset] ? cells[offset + 2]! : w === cells[offset]! + 1 ? cells[offset + 1]! : 0
  const left = from.window - (t - w * from.window)
  const same = from.window / from.perMs === params.window / params.perMs

  // The same grid: each window is capped, the older one so that both together are. Another: the estimate moves into one.
  const used = Math.min(same ? cur : cur + Math.ceil((prev * left) / from.window), params.quota)
  const time = Math.max(now, -rescale(-w * from.window, from, params))
  const into = Math.floor(time / params.window)
  const fits = Math.floor(
    ((params.quota - used + 1) * params.window - 1) / (params.window - (time - into * params.window)),
  )
  out.next[0] = cur > 0 || prev > 0 ? into : 0
  out.next[1] = used
  out.next[2] = same ? Math.min(prev, fits) : 0
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
