import { type Algorithm, createOutcome, type Outcome, type Parameters } from './algorithm.ts'
import { noEntries } from './entries.ts'
import { rescale } from './arithmetic.ts'
import { refuse, wholeNumber } from '../util/validate.ts'

/**
 * A bucket whose new keys start with `initial` tokens: any bucket, from which `capacity − initial` are taken the moment a key is
 * new.
 *
 * State: that of the bucket, and when the key is new again, a window after it was to be full. What is given back fills the bucket
 * sooner, but brings that moment no nearer: others may have been told to come back before it, and a new key has less.
 */
type Name = 'taken' | 'idle'

/** Numbers in the state of a bucket. */
const CELLS = 2

/** Makes such a bucket of one with a `capacity`, two numbers and no entries. */
export function partFull(name: string, bucket: Algorithm): Algorithm {
  const initialState: Float64Array = Float64Array.from(bucket.initialState)
  const probe = createOutcome()

  /** A bucket as it is when a key is new. */
  function newborn(params: Parameters, now: number): Float64Array {
    bucket.step(params, initialState, 0, now, params['taken']!, probe, noEntries)
    return probe.next
  }

  /** Ticks until a bucket is full. */
  function untilFull(params: Parameters, cells: Float64Array, now: number): number {
    bucket.step(params, cells, 0, now, 0, probe, noEntries)
    return probe.reset
  }

  /** What `advance` returns. One object serves every call. */
  const advanced = { renewal: 0.5, isNew: true, cells: initialState, offset: 0 }

  /** Returns when the key is new again, whether it is at `now`, and the state of its bucket. */
  function advance(params: Parameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
    const renewal = cells[offset + CELLS]!
    const isNew = now >= renewal
    advanced.renewal = renewal
    advanced.isNew = isNew
    advanced.cells = isNew ? newborn(params, now) : cells
    advanced.offset = isNew ? 0 : offset
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
    const { renewal, isNew, cells: from, offset: at } = advance(params, cells, offset, now)
    bucket.step(params, from, at, now, cost, out, noEntries)
    // A new key that is denied exists from now on: else it would be new again, and as empty, at its next request.
    out.persist ||= !out.allowed && isNew && params.taken > 0
    const isTouched = out.persist || (out.allowed && cost > 0)
    const following = isTouched ? Math.max(renewal, now + out.reset + params.idle) : renewal
    out.reset = Math.max(0, following - now)
    out.next[CELLS] = following
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
    const { renewal, isNew, cells: from, offset: at } = advance(params, cells, offset, now)
    bucket.adjust(params, from, at, now, chargedAt, units, out, noEntries)
    out.persist &&= units > 0 || !isNew
    out.next[CELLS] = units > 0 ? Math.max(renewal, now + untilFull(params, out.next, now) + params.idle) : renewal
  }

  function convert(
    params: Parameters<Name>,
    from: Parameters & { readonly idle?: number },
    cells: Float64Array,
    offset: number,
    now: number,
    out: Outcome,
  ): void {
    bucket.convert(params, from, cells, offset, now, out, noEntries)
    // Where new keys started full there is no such number, and a key is new once it is full.
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
      return { ...own, taken: capacity - initial, idle: input.window }
    },
    capacity: (params) => params['capacity']!,
    // The state is kept for one window after the bucket is full again.
    resetLag: (params) => bucket.resetLag!(params) + params.idle,
    maxValue: (params) => bucket.maxValue(params),
    step,
    adjust,
    convert,
    lua: luaOf(bucket),
  }
}

function luaOf(bucket: Algorithm): string {
  return `
local bucket = (function()
${bucket.lua}
end)()

local blank, probe = { ${bucket.initialState.map((cell) => (cell === -Infinity ? '-huge' : cell)).join(', ')} }, { next = {} }

local function newborn(p, now)
  bucket.step(p, blank, now, p.taken, probe)
  return probe.next
end

local function untilFull(p, s, now)
  bucket.step(p, s, now, 0, probe)
  return probe.reset
end

local function step(p, s, now, n, out)
  local renewal = s[${CELLS + 1}]
  local isNew = now >= renewal
  bucket.step(p, isNew and newborn(p, now) or s, now, n, out)
  out.persist = out.persist or (not out.allowed and isNew and p.taken > 0)
  local touched = out.persist or (out.allowed and n > 0)
  local following = touched and max(renewal, now + out.reset + p.idle) or renewal
  out.reset = max(0, following - now)
  out.next[${CELLS + 1}] = following
end

local function adjust(p, s, now, when, units, out)
  local renewal = s[${CELLS + 1}]
  local isNew = now >= renewal
  bucket.adjust(p, isNew and newborn(p, now) or s, now, when, units, out)
  out.persist = out.persist and (units > 0 or not isNew)
  out.next[${CELLS + 1}] = units > 0 and max(renewal, now + untilFull(p, out.next, now) + p.idle) or renewal
end

local function convert(p, from, s, now, out)
  bucket.convert(p, from, s, now, out)
  local renewal = from.idle and s[${CELLS + 1}] or -huge
  local isNew = rescale(now, p, from) >= renewal
  local full = isNew and -huge or min(now, -rescale(from.idle - renewal, from, p))
  local left = untilFull(p, out.next, now)
  out.next[${CELLS + 1}] = (left > 0 and now + left or full) + p.idle
end

return { step = step, adjust = adjust, convert = convert }
`
}
