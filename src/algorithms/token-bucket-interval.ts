import { type Algorithm, type LimitParameters, type ParameterInput, restart } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { refuse, wholeNumber } from '../util/validate.ts'

/**
 * `tokenBucket` with `refill: 'interval'`: `quota` tokens return at once, every `window`.
 *
 * State `(used, start)`: the number of taken tokens, and the start of the interval in which they were last counted. A full bucket
 * has no interval: the next request starts one.
 */
type Name = 'quota' | 'window' | 'capacity'

function deriveParameters(input: ParameterInput): Readonly<Record<Name, number>> {
  if (input.strict) refuse('strict', "no strict with refill: 'interval', as tokens return at their time anyway", true)
  const capacity = wholeNumber('capacity', input.own['capacity'] ?? input.quota, 0)
  return { quota: input.quota, window: input.window, capacity }
}

const advanced = { time: 0.5, start: 0.5, used: 0.5 }

/** Returns the time of the step, the start of its interval, and the number of tokens that are taken at that time. */
function advance(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const used = cells[offset]!
  const start = cells[offset + 1]!
  const refills = Math.floor(Math.max(0, now - start) / params.window)
  const isFresh = refills >= Math.ceil(used / params.quota)
  advanced.time = isFresh ? now : Math.max(now, start)
  advanced.start = isFresh ? now : start + refills * params.window
  advanced.used = isFresh ? 0 : used - refills * params.quota
  return advanced
}

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out) => {
  const { quota, window, capacity } = params
  const { time, start, used } = advance(params, cells, offset, now)

  const allowed = cost === 0 || cost <= capacity - used
  const kept = allowed ? used + cost : used
  const wait = start + Math.ceil((kept + cost - capacity) / quota) * window - now

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : cost > capacity ? Infinity : wait
  out.remaining = Math.max(0, capacity - kept)
  out.reset = start + Math.ceil(kept / quota) * window - now
  out.delay = 0
  out.charged = cost
  out.persist = false
  out.next[0] = kept
  out.next[1] = start
}

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
  const { quota, window } = params
  const { time, start, used } = advance(params, cells, offset, now)
  const most = Math.min(LARGEST, Math.floor(LARGEST / window) * quota)
  // If a refill came after the charge, there may have been one refill more than there are whole windows since the charge.
  const refills = chargedAt < start ? Math.floor((now - chargedAt) / window) + 1 : 0
  const change = units < 0 ? Math.min(0, units + refills * quota) : units
  const kept = Math.min(Math.max(0, used + change), most)
  out.persist = units > 0 || used > 0
  out.next[0] = kept
  out.next[1] = kept === 0 ? time : start
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
  const { start: began, used } = advance(from, cells, offset, rescale(now, params, from))
  const start = -rescale(-began, from, params)
  const isSame = from.window / from.perMs === params.window / params.perMs
  out.next[0] = Math.min(used, params.capacity)
  out.charged = isSame ? used - out.next[0] : 0
  out.next[1] = used === 0 ? -Infinity : isSame ? start : Math.max(now, -rescale(-cells[offset + 1]!, from, params))
}

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
  // The units may be used until the next refill.
  leaseUntil: ({ window }, at, reset) => at + (reset % window || window),
  toShared: (_, out) => restart(out, 1),
}
