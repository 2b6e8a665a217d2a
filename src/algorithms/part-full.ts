import { type Algorithm, createOutcome, noEntries, type Outcome, type Parameters, rescale } from '../algorithm.ts'
import { refuse, wholeNumber } from '../validate.ts'

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
  const blank = Float64Array.from(bucket.blank)
  const probe = createOutcome()

  /** A bucket as it is when a key is new. */
  function newborn(p: Parameters, now: number): Float64Array {
    bucket.step(p, blank, 0, now, p['taken']!, probe, noEntries)
    return probe.next
  }

  /** Ticks until a bucket is full. */
  function untilFull(p: Parameters, s: Float64Array, now: number): number {
    bucket.step(p, s, 0, now, 0, probe, noEntries)
    return probe.reset
  }

  function step(p: Parameters<Name>, s: Float64Array, at: number, now: number, n: number, out: Outcome): void {
    const renewal = s[at + CELLS]!
    const isNew = now >= renewal
    bucket.step(p, isNew ? newborn(p, now) : s, isNew ? 0 : at, now, n, out, noEntries)
    // A new key that is denied has come into being: else it would be as new, and as empty, when it comes back.
    out.persist ||= !out.allowed && isNew && p.taken > 0
    const touched = out.persist || (out.allowed && n > 0)
    const following = touched ? Math.max(renewal, now + out.reset + p.idle) : renewal
    out.reset = Math.max(0, following - now)
    out.next[CELLS] = following
  }

  function adjust(
    p: Parameters<Name>,
    s: Float64Array,
    at: number,
    now: number,
    then: number,
    units: number,
    out: Outcome,
  ): void {
    const renewal = s[at + CELLS]!
    const isNew = now >= renewal
    bucket.adjust(p, isNew ? newborn(p, now) : s, isNew ? 0 : at, now, then, units, out, noEntries)
    out.persist &&= units > 0 || !isNew
    out.next[CELLS] = units > 0 ? Math.max(renewal, now + untilFull(p, out.next, now) + p.idle) : renewal
  }

  function convert(
    p: Parameters<Name>,
    from: Parameters & { readonly idle?: number },
    s: Float64Array,
    at: number,
    now: number,
    out: Outcome,
  ): void {
    bucket.convert(p, from, s, at, now, out, noEntries)
    // Where new keys started full there is no such number, and a key is new once it is full.
    const renewal = from.idle === undefined ? -Infinity : s[at + CELLS]!
    const isNew = rescale(now, p, from) >= renewal
    const full = isNew ? -Infinity : Math.min(now, -rescale(from.idle! - renewal, from, p))
    const left = untilFull(p, out.next, now)
    out.next[CELLS] = (left > 0 ? now + left : full) + p.idle
  }

  return {
    name,
    options: [...bucket.options, 'initial'],
    parameters: [...bucket.parameters, 'taken', 'idle'],
    blank: [...bucket.blank, -Infinity],
    kin: [bucket],
    plan(input) {
      const own = bucket.plan(input)
      const capacity = own['capacity']!
      const initial = wholeNumber('initial', input.own['initial'], 0)
      if (initial > capacity) refuse('initial', `at most the capacity, ${capacity}`, initial)
      return { ...own, taken: capacity - initial, idle: input.window }
    },
    largest: (p) => bucket.largest(p),
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

local blank, probe = { ${bucket.blank.map((cell) => (cell === -Infinity ? '-huge' : cell)).join(', ')} }, { next = {} }

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
