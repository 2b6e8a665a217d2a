import type { Algorithm, LimitParameters, Outcome } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'

/**
 * `slidingWindowCounter`, the "moving window": two windows on the clock. The weight of the older window is the part of it that the
 * sliding window still covers.
 *
 * State `(w, cur, prev)`: the number of the window since the epoch, its count, and the count of the previous window.
 * The estimate is `cur + ⌊prev · (window − e) / window⌋`, with `e` the time since the window began. Up to twice the quota can pass
 * within a window, half of it at the end of one window and half at the end of the next.
 */
type Name = 'quota' | 'window'

const advanced = { time: 0.5, number: 0.5, current: 0.5, previous: 0.5 }

/** Returns the time of the step, the number of its window, and the counts of this window and of the previous one. */
function advance(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
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

/** Returns the largest estimate. With `strict`, it is twice the quota, so that the estimate of steady traffic stays above the quota. */
function mostCounted({ quota, strict }: LimitParameters<Name>): number {
  return strict === 1 ? 2 * quota : quota
}

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out) => {
  const { quota, window } = params
  const { time, number, current, previous } = advance(params, cells, offset, now)
  const elapsed = time - number * window
  const weighted = Math.floor((previous * (window - elapsed)) / window)

  const allowed = cost === 0 || cost <= quota - current - weighted
  const persist = !allowed && params.strict === 1
  const most = mostCounted(params) - weighted
  const kept = allowed ? current + cost : persist ? Math.max(current, Math.min(current + cost, most)) : current

  const lag = time - now
  let retry = 0
  if (!allowed) {
    // The wait lasts until the weight of the older window is small enough. If this never suffices, it lasts until this window is the older one.
    const room = quota - kept - cost
    const later = Math.max(0, window - Math.floor(((quota - cost + 1) * window - 1) / kept))
    const soon = window - Math.floor(((room + 1) * window - 1) / previous) - elapsed
    retry = cost > quota ? Infinity : room < 0 ? window - elapsed + later : soon
  }
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

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
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

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
  const { window } = params
  const { time, number, current, previous } = advance(from, cells, offset, rescale(now, params, from))
  const left = from.window - (time - number * from.window)
  const isSame = from.window / from.perMs === window / params.perMs

  // Same window: both counts are capped, the older one so that the estimate is also capped. Another window: the estimate becomes one count.
  const most = mostCounted(params)
  const used = Math.min(isSame ? current : current + Math.ceil((previous * left) / from.window), most)
  const start = Math.max(now, -rescale(-number * from.window, from, params))
  const next = Math.floor(start / window)
  const fits = Math.floor(((most - used + 1) * window - 1) / (window - (start - next * window)))
  out.next[0] = current > 0 || previous > 0 ? next : 0
  out.next[1] = used
  out.next[2] = isSame ? Math.min(previous, fits) : 0
  out.charged = isSame ? current - used + Math.ceil(((previous - out.next[2]) * left) / from.window) : 0
}

/** Fills the newer window of a full state: the charged key may have filled it, and the older window may belong to another key. */
function toShared(params: LimitParameters<Name>, out: Outcome): void {
  if (out.allowed) return
  if (out.next[1] === 0) out.reset += params.window
  out.next[1] = Math.max(out.next[1]!, params.quota)
}

/**
 * Counts two windows on the clock and weights the older one by how much of it still overlaps. Three numbers of state come
 * close to a sliding window. Up to twice the quota can pass in a window, for traffic that is not even. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example slidingWindowCounter({ quota: 100, window: '1m' })
 */
export const slidingWindowCounter: Algorithm<Name> = {
  name: 'slidingWindowCounter',
  options: [],
  parameters: ['quota', 'window'],
  cells: [{ name: 'window', ticks: 'window', newest: true }, { name: 'current' }, { name: 'previous' }],
  initialState: [0, 0, 0],
  deriveParameters: (input) => ({ quota: input.quota, window: input.window }),
  maxValue: (params) => (mostCounted(params) + 1) * params.window,
  step,
  adjust,
  convert,
  leaseUntil: ({ window }, at) => (Math.floor(at / window) + 1) * window,
  toShared,
}
