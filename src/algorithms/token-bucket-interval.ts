import { type Algorithm, type Outcome, type ParameterInput, type Parameters, restart } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { refuse, wholeNumber } from '../util/validate.ts'

/**
 * `tokenBucket` with `refill: 'interval'`: `quota` tokens return at once, every `window`.
 *
 * State `(used, start)`: the number of tokens taken, and the start of the interval in which they were last counted. A full bucket
 * has no interval: the next request starts one.
 */
type Name = 'quota' | 'window' | 'capacity'

function deriveParameters(input: ParameterInput): Readonly<Record<Name, number>> {
  if (input.strict) refuse('strict', "no strict with refill: 'interval', as tokens return at their time anyway", true)
  const capacity = wholeNumber('capacity', input.own['capacity'] ?? input.quota, 0)
  return { quota: input.quota, window: input.window, capacity }
}

/** What `advance` returns. One object serves every call, so that a step allocates nothing. */
const advanced = { time: 0.5, start: 0.5, used: 0.5 }

/** Returns the time that counts at `now`, the start of its interval, and the tokens taken at that time. */
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
  const refills = chargedAt < start ? Math.floor((now - chargedAt) / window) + 1 : 0
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

/** The same functions in Lua. */
export const intervalLua = `
local function advance(params, cells, offset, now)
  local used, start = cells[offset + 1], cells[offset + 2]
  local refills = floor(max(0, now - start) / params.window)
  if refills >= ceil(used / params.quota) then return now, now, 0 end
  return max(now, start), start + refills * params.window, used - refills * params.quota
end

local function step(params, cells, offset, now, cost)
  local quota, window, capacity = params.quota, params.window, params.capacity
  local time, start, used = advance(params, cells, offset, now)

  local allowed = cost == 0 or cost <= capacity - used
  local persist = not allowed and params.strict == 1
  local kept = allowed and used + cost or persist and max(used, capacity) or used

  local wait = start + ceil((kept + cost - capacity) / quota) * window - now
  local retry = allowed and 0 or cost > capacity and huge or wait
  local reset = start + ceil(kept / quota) * window - now
  return allowed, time, retry, max(0, capacity - kept), reset, 0, cost, persist, kept, start
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local quota, window = params.quota, params.window
  local time, start, used = advance(params, cells, offset, now)
  local most = min(LARGEST, floor(LARGEST / window) * quota)
  local refills = chargedAt < start and floor((now - chargedAt) / window) + 1 or 0
  local change = units < 0 and min(0, units + refills * quota) or units
  local kept = min(max(0, used + change), most)
  return units > 0 or used > 0, kept, kept == 0 and time or start
end

local function convert(params, from, cells, offset, now)
  local _, began, used = advance(from, cells, offset, rescale(now, params, from))
  local start = -rescale(-began, from, params)
  local isSame = from.window / from.perMs == params.window / params.perMs
  local last = used == 0 and -huge or isSame and start or max(now, -rescale(-cells[offset + 2], from, params))
  return min(used, params.capacity), last
end

return { step = step, adjust = adjust, convert = convert }
`

/** Token bucket with refill at intervals. */
export const intervalRefill: Algorithm<Name> = {
  name: 'tokenBucketInterval',
  options: ['capacity'],
  parameters: ['quota', 'window', 'capacity'],
  cells: [{ name: 'used' }, { name: 'start', ticks: 1, newest: true }],
  initialState: [0, -Infinity],
  deriveParameters,
  maxValue: (params) => (Math.ceil(params.capacity / params.quota) + 1) * params.window,
  capacity: (params) => params.capacity,
  resetLag: (params) => (Math.ceil(params.capacity / params.quota) - 1) * params.window,
  step,
  adjust,
  convert,
  toShared: (_, out) => restart(out, 1),
}
