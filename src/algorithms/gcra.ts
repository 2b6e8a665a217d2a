import type { Algorithm, LimitParameters, ParameterInput } from './algorithm.ts'
import { convertDebt, gcd, LARGEST, rescale, unitsAbove } from './arithmetic.ts'
import { boolean, refuse, wholeNumber } from '../util/validate.ts'

/**
 * The linear family: `gcra`, `tokenBucket` with greedy refill, `leakyBucket`, `spacing`.
 *
 * State `(d, last)`: the debt, and the time for which it was computed. The debt falls by `drain` each tick. A request of cost `n` adds
 * `n · unit` to the debt, and is admitted if the sum is at most `full`. With `g = gcd(quota, window)`, `drain = quota / g` and
 * `unit = window / g`. So a unit drains in `window / quota`, and the state is never rounded.
 *
 * @see https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm (as a meter, multiplied out)
 */
type Name = 'drain' | 'unit' | 'capacity' | 'full' | 'queue'

function deriveParameters(input: ParameterInput, capacity: number, queue = false): Readonly<Record<Name, number>> {
  const g = gcd(input.quota, input.window)
  const unit = input.window / g
  return { drain: input.quota / g, unit, capacity, full: capacity * unit, queue: queue ? 1 : 0 }
}

const advanced = { time: 0.5, debt: 0.5 }

/** Returns the time of the step and the debt at that time. The time is never before the last charge. */
function advance(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const debt = cells[offset]!
  const last = cells[offset + 1]!
  const drained = now > last ? (now - last) * params.drain : 0
  const isFresh = drained >= debt
  advanced.time = isFresh || now > last ? now : last
  advanced.debt = isFresh ? 0 : debt - drained
  return advanced
}

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out) => {
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

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
  const { time, debt } = advance(params, cells, offset, now)
  // All units that have drained since then may have been part of this charge.
  const drained = Math.max(0, now - chargedAt) * params.drain
  const change = units < 0 ? Math.min(0, units * params.unit + drained) : units * params.unit
  out.persist = units > 0 || debt > 0
  out.next[0] = Math.min(Math.max(0, debt + change), LARGEST)
  out.next[1] = time
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
  const last = cells[offset + 1]!
  const { debt } = advance(from, cells, offset, rescale(now, params, from))
  const owed = convertDebt(debt, from.unit, params.unit)
  out.charged = unitsAbove(owed, params.full, params.unit)
  out.next[0] = owed - out.charged * params.unit
  out.next[1] = debt === 0 ? -Infinity : Math.max(now, rescale(last, from, params))
}

const compiled = {
  parameters: ['drain', 'unit', 'capacity', 'full', 'queue'],
  cells: [{ name: 'debt' }, { name: 'time', ticks: 1, newest: true }],
  initialState: [0, -Infinity],
  maxValue: (params: LimitParameters<Name>): number => Math.max(params.full, params.capacity + params.drain),
  capacity: (params: LimitParameters<Name>): number => params.capacity,
  resetLag: (params: LimitParameters<Name>): number => ((params.capacity - 1) * params.unit) / params.drain,
  step,
  adjust,
  convert,
  // With a queue, units cannot be used later: the delay of a request is its place in the queue when it is charged.
  leaseUntil: (params: LimitParameters<Name>, at: number): number => (params.queue === 1 ? at : Infinity),
} as const

/**
 * Allows `quota` per `window`, evenly: each unit returns after `window / quota`. Up to `burst` units can be used back to back.
 * The default choice: two numbers of state, no window edges, an exact wait.
 * At most `burst + quota - 1` units pass in any window: `2 * quota - 1` by default.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example gcra({ quota: 100, window: '1m', burst: 20 })
 */
export const gcra: Algorithm<Name> = {
  ...compiled,
  name: 'gcra',
  options: ['burst'],
  optionFields: {
    burst: {
      kind: 'count',
      least: 0,
      fallback: 'quota',
      meaning: 'The most units that can be used back to back. 0 admits nothing.',
    },
  },
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

/**
 * A queue that empties evenly, one request per `window / quota`. A request that does not fit is denied. At most `capacity + quota - 1`
 * requests are admitted in any window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example leakyBucket({ quota: 5, window: '1s', capacity: 20 })
 */
export const leakyBucket: Algorithm<Name> = {
  ...compiled,
  name: 'leakyBucket',
  options: ['capacity', 'shape'],
  optionFields: {
    capacity: { kind: 'count', least: 0, fallback: 'quota', meaning: 'The length of the queue. 0 admits nothing.' },
    shape: {
      kind: 'flag',
      fallback: 'true',
      meaning: 'Whether admitted requests wait for their turn, as `delay` says.',
    },
  },
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
