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

/** What `advance` returns. One object serves every call, so that a step allocates nothing. */
const advanced = { time: 0.5, start: 0.5, used: 0.5 }

/** Returns the time that counts at `now`, when its interval began and how many tokens are taken by then. */
function advance(params: Parameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const used = cells[offset]!
  const start = cells[offset + 1]!
  const refills = Math.floor(Math.max(0, now - start) / params.window)
  const isFresh = refills >= Math.ceil(used / params.quota)
  advanced.time = isFresh ? now : Math.max(now, start)
  advanced.start = isFresh ? now : start + refills * params.window
  advanced.used = isFresh ? 0 : used - refills * params.quota
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
  const { quota, window, capacity } = params
  const { time, start, used } = advance(params, cells, offset, now)

  const allowed = cost === 0 || cost <= capacity - used
  const persist = !allowed && params.strict === 1
  const kept = allowed ? used + cost : persist ? Math.max(used, capacity) : used
  const wait = start + Math.ceil((kept + cost - capacity) / quota) * window - now

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : cost > capacity ? Infinity : wait
  out.remaining = Math.max(0, capacity - kept)
  out.reset = start + Math.ceil(kept / quota) * window - now
  out.delay = 0
  out.charged = cost
  out.persist = persist
  out.next[0] = kept
  out.next[1] = start
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
  const { quota, window } = params
  const { time, start, used } = advance(params, cells, offset, now)
  const most = Math.min(LARGEST, Math.floor(LARGEST / window) * quota)
  // There may have been one refill more than whole windows, unless the one that counts from now was before the charge.
  const refills = params.conservative === 1 && chargedAt < start ? Math.floor((now - chargedAt) / window) + 1 : 0
  const change = units < 0 ? Math.min(0, units + refills * quota) : units
  const kept = Math.min(Math.max(0, used + change), most)
  out.persist = units > 0 || used > 0
  out.next[0] = kept
  out.next[1] = kept === 0 ? time : start
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const { start: began, used } = advance(from, cells, offset, rescale(now, params, from))
  const start = -rescale(-began, from, params)
  const isSame = from.window / from.perMs === params.window / params.perMs
  out.next[0] = Math.min(used, params.capacity)
  out.next[1] = used === 0 ? -Infinity : isSame ? start : Math.max(now, -rescale(-cells[offset + 1]!, from, params))
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
