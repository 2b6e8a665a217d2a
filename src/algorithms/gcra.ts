import type { Algorithm, Outcome, ParameterInput, Parameters } from './algorithm.ts'
import { gcd, LARGEST, rescale } from './arithmetic.ts'
import { boolean, refuse, wholeNumber } from '../util/validate.ts'

/**
 * The linear family: `gcra`, `tokenBucket` with greedy refill, `leakyBucket`, `spacing`.
 *
 * State `(d, last)`: the debt, and the time at which it was computed. The debt drains by `drain` each tick. A request of cost `n`
 * adds `n · unit` to it, and is admitted if the debt is then at most `full`. With `g = gcd(quota, window)`, `drain = quota / g` and
 * `unit = window / g`: a unit drains in `window / quota`, and the state is never rounded.
 *
 * @see https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm (as a meter, multiplied out)
 */
type Name = 'drain' | 'unit' | 'capacity' | 'full' | 'queue'

function deriveParameters(input: ParameterInput, capacity: number, queue = false): Readonly<Record<Name, number>> {
  const g = gcd(input.quota, input.window)
  const unit = input.window / g
  return { drain: input.quota / g, unit, capacity, full: capacity * unit, queue: queue ? 1 : 0 }
}

/** What `advance` returns. One object serves every call, so that a step allocates nothing. */
const advanced = { time: 0.5, debt: 0.5 }

/** Returns the time that counts at `now`, which is never before the last charge, and the debt at that time. */
function advance(params: Parameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const debt = cells[offset]!
  const last = cells[offset + 1]!
  const drained = now > last ? (now - last) * params.drain : 0
  const isFresh = drained >= debt
  advanced.time = isFresh || now > last ? now : last
  advanced.debt = isFresh ? 0 : debt - drained
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
  const { drain, unit, full } = params
  const { time, debt } = advance(params, cells, offset, now)

  const after = debt + cost * unit
  const allowed = cost === 0 || after <= full
  const persist = !allowed && params.strict === 1
  const kept = allowed ? after : persist ? Math.max(debt, full) : debt

  const lag = time - now

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : cost > params.capacity ? Infinity : Math.ceil((kept + (after - debt) - full) / drain) + lag
  out.remaining = kept < full ? Math.floor((full - kept) / unit) : 0
  out.reset = kept > 0 ? Math.ceil(kept / drain) + lag : 0
  out.delay = params.queue === 1 && allowed && cost > 0 && debt > 0 ? Math.ceil(debt / drain) + lag : 0
  out.charged = cost
  out.persist = persist
  out.next[0] = kept
  out.next[1] = time
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
  const { time, debt } = advance(params, cells, offset, now)
  // Everything that has drained since may have been part of this charge.
  const drained = Math.max(0, now - chargedAt) * params.drain
  const change = units < 0 ? Math.min(0, units * params.unit + drained) : units * params.unit
  out.persist = units > 0 || debt > 0
  out.next[0] = Math.min(Math.max(0, debt + change), LARGEST)
  out.next[1] = time
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const last = cells[offset + 1]!
  const { debt } = advance(from, cells, offset, rescale(now, params, from))
  out.next[0] = Math.min(Math.ceil(debt / from.unit), params.capacity) * params.unit
  out.next[1] = debt === 0 ? -Infinity : Math.max(now, rescale(last, from, params))
}

/** The same functions in Lua. */
export const linearLua = `
local function advance(params, cells, offset, now)
  local debt, last = cells[offset + 1], cells[offset + 2]
  local drained = now > last and (now - last) * params.drain or 0
  if drained >= debt then return now, 0 end
  return now > last and now or last, debt - drained
end

local function step(params, cells, offset, now, cost)
  local drain, unit, full = params.drain, params.unit, params.full
  local time, debt = advance(params, cells, offset, now)

  local after = debt + cost * unit
  local allowed = cost == 0 or after <= full
  local persist = not allowed and params.strict == 1
  local kept = allowed and after or persist and max(debt, full) or debt

  local lag = time - now
  local retry = allowed and 0 or cost > params.capacity and huge or ceil((kept + (after - debt) - full) / drain) + lag
  local reset = kept > 0 and ceil(kept / drain) + lag or 0
  local delay = params.queue == 1 and allowed and cost > 0 and debt > 0 and ceil(debt / drain) + lag or 0
  local remaining = kept < full and floor((full - kept) / unit) or 0
  return allowed, time, retry, remaining, reset, delay, cost, persist, kept, time
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local time, debt = advance(params, cells, offset, now)
  local drained = max(0, now - chargedAt) * params.drain
  local change = units < 0 and min(0, units * params.unit + drained) or units * params.unit
  return units > 0 or debt > 0, min(max(0, debt + change), LARGEST), time
end

local function convert(params, from, cells, offset, now)
  local last = cells[offset + 2]
  local _, debt = advance(from, cells, offset, rescale(now, params, from))
  local kept = min(ceil(debt / from.unit), params.capacity) * params.unit
  return kept, debt == 0 and -huge or max(now, rescale(last, from, params))
end

return { step = step, adjust = adjust, convert = convert }
`

const compiled = {
  parameters: ['drain', 'unit', 'capacity', 'full', 'queue'],
  cells: [{ name: 'debt' }, { name: 'time', ticks: 1, newest: true }],
  initialState: [0, -Infinity],
  maxValue: (params: Parameters<Name>): number => Math.max(params.full, params.capacity + params.drain),
  capacity: (params: Parameters<Name>): number => params.capacity,
  resetLag: (params: Parameters<Name>): number => ((params.capacity - 1) * params.unit) / params.drain,
  step,
  adjust,
  convert,
} as const

/** GCRA: `quota` per `window`, up to `burst` at once. */
export const gcra: Algorithm<Name> = {
  ...compiled,
  name: 'gcra',
  options: ['burst'],
  deriveParameters: (input) => deriveParameters(input, wholeNumber('burst', input.own['burst'] ?? input.quota, 0)),
}

/** Token bucket with greedy refill: `capacity` tokens; `quota` tokens per `window` return continuously. */
export const greedyRefill: Algorithm<Name> = {
  ...compiled,
  name: 'tokenBucket',
  options: ['capacity'],
  deriveParameters: (input) =>
    deriveParameters(input, wholeNumber('capacity', input.own['capacity'] ?? input.quota, 0)),
}

/** Leaky bucket as a queue: at most `capacity` requests wait, and one continues every `window / quota`. */
export const leakyBucket: Algorithm<Name> = {
  ...compiled,
  name: 'leakyBucket',
  options: ['capacity', 'shape'],
  deriveParameters: (input) => {
    const capacity = wholeNumber('capacity', input.own['capacity'] ?? input.quota, 0)
    return deriveParameters(input, capacity, boolean('shape', input.own['shape'] ?? true))
  },
}

/** One request, then a pause of `window`. */
export const spacing: Algorithm<Name> = {
  ...compiled,
  name: 'spacing',
  options: [],
  deriveParameters: (input) =>
    deriveParameters(input, input.quota === 1 ? 1 : refuse('quota', '1, as spacing lets one through', input.quota)),
}
