import { type Algorithm, createOutcome, type LimitParameters, type ParameterInput } from './algorithm.ts'
import { noEntries } from './entries.ts'
import { rescale } from './arithmetic.ts'
import { refuse, wholeNumber } from '../util/validate.ts'

/**
 * A bucket whose new keys start with `initial` tokens. It wraps another bucket. When a key is new, it takes `capacity − initial` tokens
 * from it.
 *
 * State: the state of the bucket, and the time at which the key is new again. This is one window after the bucket is full. A refund fills
 * the bucket earlier, but does not change this time: another request may have a `retryAfter` before it, and a new key would have fewer
 * tokens. A key that another limit denies for a longer time is also new again. If the longest `block` is longer than a window, the
 * time is that lock-out after the bucket is full. Otherwise, with `initial: 0`, a key would be new at the end of each lock-out, and locked out
 * again.
 */
type Name = 'taken' | 'idle'

const CELLS = 2

function longestBlock({ own, perMs }: ParameterInput): number {
  const block = (own['block'] ?? 0) as number | { readonly upTo: number }
  return (typeof block === 'number' ? block : block.upTo) * perMs
}

/** Wraps a bucket that has a `capacity`, two cells and no entries. */
export function partFull(name: string, bucket: Algorithm): Algorithm {
  const initialState: Float64Array = Float64Array.from(bucket.initialState)
  const probe = createOutcome()

  function newborn(params: LimitParameters, now: number): Float64Array {
    bucket.step(params, initialState, 0, now, params['taken']!, probe, noEntries)
    return probe.next
  }

  function untilFull(params: LimitParameters, cells: Float64Array, now: number): number {
    bucket.step(params, cells, 0, now, 0, probe, noEntries)
    return probe.reset
  }

  const advanced = { renewal: 0.5, isNew: true, cells: initialState, offset: 0 }

  /** Returns the time when the key is new again, whether it is new at `now`, and the state of its bucket. */
  function advance(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
    const renewal = cells[offset + CELLS]!
    const isNew = now >= renewal
    advanced.renewal = renewal
    advanced.isNew = isNew
    advanced.cells = isNew ? newborn(params, now) : cells
    advanced.offset = isNew ? 0 : offset
    return advanced
  }

  const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out) => {
    const { renewal, isNew, cells: from, offset: at } = advance(params, cells, offset, now)
    bucket.step(params, from, at, now, cost, out, noEntries)
    // The state of a new key is saved even if the request is denied. Otherwise the key would be new again at each request, with no more tokens.
    out.persist ||= !out.allowed && isNew && params.taken > 0
    const isTouched = out.persist || (out.allowed && cost > 0)
    const following = isTouched ? Math.max(renewal, now + out.reset + params.idle) : renewal
    out.reset = Math.max(0, following - now)
    out.next[CELLS] = following
  }

  const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
    const { renewal, isNew, cells: from, offset: at } = advance(params, cells, offset, now)
    bucket.adjust(params, from, at, now, chargedAt, units, out, noEntries)
    out.persist &&= units > 0 || !isNew
    out.next[CELLS] = units > 0 ? Math.max(renewal, now + untilFull(params, out.next, now) + params.idle) : renewal
  }

  const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
    bucket.convert(params, from, cells, offset, now, out, noEntries)
    // Without `idle`, new keys started full: there is no renewal time, and a key is new when it is full.
    const renewal = from.idle === undefined ? -Infinity : cells[offset + CELLS]!
    const isNew = rescale(now, params, from) >= renewal
    const full = isNew ? -Infinity : Math.min(now, -rescale(from.idle! - renewal, from, params))
    const left = untilFull(params, out.next, now)
    out.next[CELLS] = (left > 0 ? now + left : full) + params.idle
  }

  return {
    name,
    options: [...bucket.options, 'initial'],
    parameters: [...bucket.parameters, 'taken', 'idle'],
    cells: [...bucket.cells, { name: 'new again', ticks: 1 }],
    initialState: [...bucket.initialState, -Infinity],
    compatibleWith: [bucket],
    deriveParameters(input) {
      const own = bucket.deriveParameters(input)
      const capacity = own['capacity']!
      const initial = wholeNumber('initial', input.own['initial'], 0)
      if (initial > capacity) refuse('initial', `at most the capacity, ${capacity}`, initial)
      return { ...own, taken: capacity - initial, idle: Math.max(input.window, longestBlock(input)) }
    },
    capacity: (params) => params['capacity']!,
    // The state is kept for one window, or one lock-out, after the bucket is full again.
    resetLag: (params) => bucket.resetLag!(params) + params.idle,
    maxValue: (params) => bucket.maxValue(params),
    step,
    adjust,
    convert,
    // With an interval refill, nothing is leased: after a refund, the renewal time does not show the time of the next refill.
    leaseUntil: (params, at, reset) => (params['drain'] === undefined ? at : bucket.leaseUntil!(params, at, reset)),
  }
}
