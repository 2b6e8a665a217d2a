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
local function advance(params, cells, offset, now)
  local window, number, current, previous = params.window, cells[offset + 1], cells[offset + 2], cells[offset + 3]
  local time = (current > 0 or previous > 0) and max(now, number * window) or now
  local latest = floor(time / window)
  if latest == number then return time, latest, current, previous end
  return time, latest, 0, latest == number + 1 and current or 0
end

local function step(params, cells, offset, now, cost)
  local quota, window = params.quota, params.window
  local time, number, current, previous = advance(params, cells, offset, now)
  local elapsed = time - number * window
  local weighted = floor((previous * (window - elapsed)) / window)

  local allowed = cost == 0 or cost <= quota - current - weighted
  local persist = not allowed and params.strict == 1
  local kept = allowed and current + cost or persist and max(current, quota - weighted) or current

  local lag = time - now
  local retry = 0
  if not allowed then
    local room = quota - kept - cost
    local later = max(0, window - floor(((quota - cost + 1) * window - 1) / kept))
    local wait = room < 0 and window - elapsed + later or window - floor(((room + 1) * window - 1) / previous) - elapsed
    retry = cost > quota and huge or wait
    if retry > 0 then retry = retry + lag end
  end
  local reset = kept > 0 and 2 * window - elapsed or previous > 0 and window - elapsed or 0
  if reset > 0 then reset = reset + lag end
  local remaining = max(0, quota - kept - weighted)
  return allowed, time, retry, remaining, reset, 0, cost, persist, number, kept, previous
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local window = params.window
  local _, number, current, previous = advance(params, cells, offset, now)
  local charged = floor(chargedAt / window)
  local isOlder = units < 0 and charged == number - 1
  local held = isOlder and previous or charged == number and current or 0
  local kept = isOlder and current or min(max(0, current + units), floor(LARGEST / window))
  return units > 0 or held > 0, number, kept, isOlder and max(0, previous + units) or previous
end

local function convert(params, from, cells, offset, now)
  local window = params.window
  local time, number, current, previous = advance(from, cells, offset, rescale(now, params, from))
  local left = from.window - (time - number * from.window)
  local isSame = from.window / from.perMs == window / params.perMs

  local used = min(isSame and current or current + ceil((previous * left) / from.window), params.quota)
  local start = max(now, -rescale(-number * from.window, from, params))
  local next = floor(start / window)
  local fits = floor(((params.quota - used + 1) * window - 1) / (window - (start - next * window)))
  return (current > 0 or previous > 0) and next or 0, used, isSame and min(previous, fits) or 0
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
