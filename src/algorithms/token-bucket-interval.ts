import { type Algorithm, type Outcome, type ParameterInput, type Parameters, restart } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { wholeNumber } from '../util/validate.ts'

/**
 * `tokenBucket` with `refill: 'interval'`: `quota` tokens come back at once, every `window`.
 *
 * State `(used, start)`: tokens taken, and when the interval began in which they were last counted. A full bucket has no
 * phase: the next request begins an interval.
 */
type Name = 'quota' | 'window' | 'capacity'

function deriveParameters(input: ParameterInput): Readonly<Record<Name, number>> {
  const capacity = wholeNumber('capacity', input.own['capacity'] ?? input.quota)
  return { quota: input.quota, window: input.window, capacity }
}

function step(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  n: number,
  out: Outcome,
): void {
  const u = cells[offset]!
  const full = Math.ceil(u / params.quota)
  const k = Math.floor(Math.max(0, now - cells[offset + 1]!) / params.window)
  const fresh = k >= full
  const t = fresh ? now : Math.max(now, cells[offset + 1]!)
  const u0 = fresh ? 0 : u - k * params.quota
  const start = fresh ? now : cells[offset + 1]! + k * params.window

  const allowed = n === 0 || n <= params.capacity - u0
  const persist = !allowed && params.strict === 1
  const kept = allowed ? u0 + n : persist ? Math.max(u0, params.capacity) : u0

  const wait = start + Math.ceil((kept + n - params.capacity) / params.quota) * params.window - now

  out.allowed = allowed
  out.at = t
  out.retry = allowed ? 0 : n > params.capacity ? Infinity : wait
  out.remaining = Math.max(0, params.capacity - kept)
  out.reset = start + Math.ceil(kept / params.quota) * params.window - now
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = kept
  out.next[1] = start
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
  const u = cells[offset]!
  const full = Math.ceil(u / params.quota)
  const k = Math.floor(Math.max(0, now - cells[offset + 1]!) / params.window)
  const fresh = k >= full
  const t = fresh ? now : Math.max(now, cells[offset + 1]!)
  const u0 = fresh ? 0 : u - k * params.quota
  const start = fresh ? now : cells[offset + 1]! + k * params.window

  const most = Math.min(LARGEST, Math.floor(LARGEST / params.window) * params.quota)
  // There may have been one refill more than whole windows, unless the one that counts from now was before the charge.
  const refills = params.conservative === 1 && then < start ? Math.floor((now - then) / params.window) + 1 : 0
  const change = units < 0 ? Math.min(0, units + refills * params.quota) : units
  const kept = Math.min(Math.max(0, u0 + change), most)
  out.persist = units > 0 || u0 > 0
  out.next[0] = kept
  out.next[1] = kept === 0 ? t : start
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const u = cells[offset]!
  const full = Math.ceil(u / from.quota)
  const k = Math.floor(Math.max(0, rescale(now, params, from) - cells[offset + 1]!) / from.window)
  const fresh = k >= full
  const u0 = fresh ? 0 : u - k * from.quota
  const start = -rescale(-(cells[offset + 1]! + k * from.window), from, params)
  const same = from.window / from.perMs === params.window / params.perMs
  out.next[0] = Math.min(u0, params.capacity)
  out.next[1] = fresh ? -Infinity : same ? start : Math.max(now, -rescale(-cells[offset + 1]!, from, params))
}

const lua = `
local function step(p, s, now, n, out)
  local u = s[1]
  local full = ceil(u / p.quota)
  local k = floor(max(0, now - s[2]) / p.window)
  local fresh = k >= full
  local t = fresh and now or max(now, s[2])
  local u0 = fresh and 0 or u - k * p.quota
  local start = fresh and now or s[2] + k * p.window

  local allowed = n == 0 or n <= p.capacity - u0
  local persist = not allowed and p.strict == 1
  local kept = allowed and u0 + n or persist and max(u0, p.capacity) or u0

  local wait = start + ceil((kept + n - p.capacity) / p.quota) * p.window - now

  out.allowed = allowed
  out.at = t
  out.retry = allowed and 0 or n > p.capacity and huge or wait
  out.remaining = max(0, p.capacity - kept)
  out.reset = start + ceil(kept / p.quota) * p.window - now
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
  local fresh = k >= full
  local t = fresh and now or max(now, s[2])
  local u0 = fresh and 0 or u - k * p.quota
  local start = fresh and now or s[2] + k * p.window

  local most = min(LARGEST, floor(LARGEST / p.window) * p.quota)
  local refills = p.conservative == 1 and when < start and floor((now - when) / p.window) + 1 or 0
  local change = units < 0 and min(0, units + refills * p.quota) or units
  local kept = min(max(0, u0 + change), most)
  out.persist = units > 0 or u0 > 0
  out.next[1] = kept
  out.next[2] = kept == 0 and t or start
end

local function convert(p, from, s, now, out)
  local u = s[1]
  local full = ceil(u / from.quota)
  local k = floor(max(0, rescale(now, p, from) - s[2]) / from.window)
  local fresh = k >= full
  local u0 = fresh and 0 or u - k * from.quota
  local start = -rescale(-(s[2] + k * from.window), from, p)
  local same = from.window / from.perMs == p.window / p.perMs
  out.next[1] = min(u0, p.capacity)
  out.next[2] = fresh and -huge or same and start or max(now, -rescale(-s[2], from, p))
end

return { step = step, adjust = adjust, convert = convert }
`

/** Token bucket with refill at intervals. */
export const intervalRefill: Algorithm<Name> = {
  name: 'tokenBucketInterval',
  options: ['capacity'],
  parameters: ['quota', 'window', 'capacity'],
  cells: [{ name: 'used' }, { name: 'start', ticks: 1 }],
  initialState: [0, -Infinity],
  deriveParameters,
  maxValue: (params) => (Math.ceil(params.capacity / params.quota) + 1) * params.window,
  capacity: (params) => params.capacity,
  resetLag: (params) => (Math.ceil(params.capacity / params.quota) - 1) * params.window,
  step,
  adjust,
  convert,
  toShared: (_, out) => restart(out, 1),
  lua,
}
