import { type Algorithm, type Outcome, type ParameterInput, type Parameters, restart } from './algorithm.ts'
import { gcd, LARGEST, rescale } from './arithmetic.ts'

/**
 * `quotaLinear`: Tony Finch's hybrid of a fixed window and a linear limit. Prefer `gcra`; its author does.
 *
 * A client with little traffic may burst: a fixed window of `quota` tokens, none coming back. Whoever takes the last one has
 * to be smooth from then on: tokens come back evenly, after a penalty that lasts until the window would have ended; a bucket
 * that is full again is as good as new. One request of several units is as many requests of one unit in the same tick.
 *
 * State `(mode, b, time)`. Tokens are held as multiples of `unit = window / g`, with `g = gcd(quota, window)`; `drain = quota / g`
 * of it come back a tick, so that nothing is rounded. Bursty: `time` is the start of the window, and at least one token is
 * left. Smooth: `time` is when `b` was counted.
 *
 * @see Tony Finch's blog, https://dotat.at
 */
type Name = 'quota' | 'window' | 'drain' | 'unit' | 'full'

const FRESH = 0
const BURSTY = 1
const SMOOTH = 2

function deriveParameters({ quota, window }: ParameterInput): Readonly<Record<Name, number>> {
  const g = gcd(quota, window)
  return { quota, window, drain: quota / g, unit: window / g, full: quota * (window / g) }
}

function step(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  n: number,
  out: Outcome,
): void {
  const mode = cells[offset]!
  const b = cells[offset + 1]!
  const time = cells[offset + 2]!
  const elapsed = Math.max(0, now - time)
  const fresh =
    mode === FRESH || elapsed >= (mode === BURSTY ? params.window : Math.ceil((params.full - b) / params.drain))
  const t = fresh ? now : Math.max(now, time)
  const bursty = fresh || mode === BURSTY
  const b0 = fresh ? params.full : bursty ? b : b + elapsed * params.drain
  const start = !fresh && bursty ? time : t
  const left = start + params.window - t

  const allowed = n === 0 || (n <= params.quota && n * params.unit <= b0)
  const persist = !allowed && params.strict === 1
  const b1 = allowed ? b0 - n * params.unit : persist ? Math.min(b0, 0) : b0
  const last = bursty && b1 <= 0
  const kept = last ? params.unit - left * params.drain : b1

  const smooth = last || !bursty
  const wait = smooth ? Math.ceil((n * params.unit - kept) / params.drain) : left
  const reset = smooth ? Math.ceil((params.full - kept) / params.drain) : kept < params.full ? left : 0

  out.allowed = allowed
  out.at = t
  out.retry = allowed ? 0 : n > params.quota ? Infinity : wait + (t - now)
  out.remaining = Math.max(0, Math.floor(kept / params.unit))
  out.reset = reset === 0 ? 0 : reset + (t - now)
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = smooth ? SMOOTH : BURSTY
  out.next[1] = kept
  out.next[2] = smooth ? t : start
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
  const mode = cells[offset]!
  const b = cells[offset + 1]!
  const time = cells[offset + 2]!
  const elapsed = Math.max(0, now - time)
  const fresh =
    mode === FRESH || elapsed >= (mode === BURSTY ? params.window : Math.ceil((params.full - b) / params.drain))
  const t = fresh ? now : Math.max(now, time)
  const bursty = fresh || mode === BURSTY
  const b0 = fresh ? params.full : bursty ? b : b + elapsed * params.drain
  const start = !fresh && bursty ? time : t
  const left = start + params.window - t

  const drained = params.conservative === 1 && !bursty && time > then ? Math.max(0, now - then) * params.drain : 0
  const change = units < 0 ? Math.min(0, units * params.unit + drained) : units * params.unit
  const b1 = Math.min(b0 - change, params.full)
  const last = bursty && b1 <= 0
  const smooth = last || !bursty
  out.persist = units > 0 || (!fresh && (smooth || then >= start))
  out.next[0] = b1 === params.full ? FRESH : smooth ? SMOOTH : BURSTY
  out.next[1] = Math.max(last ? b1 + params.unit - left * params.drain : b1, -LARGEST)
  out.next[2] = smooth ? t : start
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const mode = cells[offset]!
  const b = cells[offset + 1]!
  const time = cells[offset + 2]!
  const elapsed = Math.max(0, rescale(now, params, from) - time)
  const fresh = mode === FRESH || elapsed >= (mode === BURSTY ? from.window : Math.ceil((from.full - b) / from.drain))
  const bursty = mode === BURSTY
  const used = from.quota - Math.floor((bursty ? b : b + elapsed * from.drain) / from.unit)

  // What is over the quota is the penalty of smooth mode, at most what it is when a whole window is left.
  const same = from.window / from.perMs === params.window / params.perMs
  const began = -rescale(-time, from, params)
  const t = Math.max(now, began)
  const start = bursty && same ? began : t
  const last = bursty && used >= params.quota
  const tokens = Math.max(params.quota - used, 1 - params.quota)
  out.next[0] = fresh ? FRESH : bursty && !last ? BURSTY : SMOOTH
  out.next[1] = fresh ? 0 : last ? params.unit - (start + params.window - t) * params.drain : tokens * params.unit
  out.next[2] = fresh ? 0 : last ? t : start
}

/** Smooth, any of them may just have taken the last token of a window of its own: the worst there is after a charge. */
function toShared(params: Parameters<Name>, out: Outcome): void {
  if (out.next[0] === BURSTY) return restart(out, 2)
  const worst = params.unit - params.window * params.drain
  out.reset += Math.ceil((out.next[1]! - worst) / params.drain)
  out.next[1] = worst
}

const lua = `
local FRESH, BURSTY, SMOOTH = ${FRESH}, ${BURSTY}, ${SMOOTH}

local function advance(params, cells, offset, now)
  local mode, tokens, time = cells[offset + 1], cells[offset + 2], cells[offset + 3]
  local elapsed = max(0, now - time)
  local life = mode == BURSTY and params.window or ceil((params.full - tokens) / params.drain)
  if mode == FRESH or elapsed >= life then return FRESH, params.full, now, now end
  local latest = max(now, time)
  if mode == BURSTY then return BURSTY, tokens, latest, time end
  return SMOOTH, tokens + elapsed * params.drain, latest, latest
end

local function step(params, cells, offset, now, cost)
  local quota, drain, unit, full = params.quota, params.drain, params.unit, params.full
  local mode, tokens, time, start = advance(params, cells, offset, now)
  local left = start + params.window - time

  local allowed = cost == 0 or (cost <= quota and cost * unit <= tokens)
  local persist = not allowed and params.strict == 1
  local after = allowed and tokens - cost * unit or persist and min(tokens, 0) or tokens
  local isLast = mode ~= SMOOTH and after <= 0
  local kept = isLast and unit - left * drain or after

  local lag = time - now
  local isSmooth = isLast or mode == SMOOTH
  local wait = isSmooth and ceil((cost * unit - kept) / drain) or left
  local retry = allowed and 0 or cost > quota and huge or wait + lag
  local reset = isSmooth and ceil((full - kept) / drain) or kept < full and left or 0
  if reset > 0 then reset = reset + lag end
  local next = isSmooth and SMOOTH or BURSTY
  local remaining = max(0, floor(kept / unit))
  return allowed, time, retry, remaining, reset, 0, cost, persist, next, kept, isSmooth and time or start
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local drain, unit, full = params.drain, params.unit, params.full
  local mode, tokens, time, start = advance(params, cells, offset, now)
  local left = start + params.window - time

  local isOutlived = params.conservative == 1 and mode == SMOOTH and cells[offset + 3] > chargedAt
  local drained = isOutlived and max(0, now - chargedAt) * drain or 0
  local change = units < 0 and min(0, units * unit + drained) or units * unit
  local after = min(tokens - change, full)
  local isLast = mode ~= SMOOTH and after <= 0
  local isSmooth = isLast or mode == SMOOTH
  local persist = units > 0 or (mode ~= FRESH and (isSmooth or chargedAt >= start))
  local next = after == full and FRESH or isSmooth and SMOOTH or BURSTY
  return persist, next, max(isLast and after + unit - left * drain or after, -LARGEST), isSmooth and time or start
end

local function convert(params, from, cells, offset, now)
  local mode, tokens = advance(from, cells, offset, rescale(now, params, from))
  if mode == FRESH then return FRESH, 0, 0 end
  local used = from.quota - floor(tokens / from.unit)

  local isSame = from.window / from.perMs == params.window / params.perMs
  local began = -rescale(-cells[offset + 3], from, params)
  local time = max(now, began)
  local start = mode == BURSTY and isSame and began or time
  if mode == BURSTY and used >= params.quota then
    return SMOOTH, params.unit - (start + params.window - time) * params.drain, time
  end
  local left = max(params.quota - used, 1 - params.quota)
  return mode, left * params.unit, start
end

return { step = step, adjust = adjust, convert = convert }
`

/** Hybrid of a fixed window and a linear limit: bursts for light traffic, an even rate once the quota is used up. */
export const quotaLinear: Algorithm<Name> = {
  name: 'quotaLinear',
  options: [],
  parameters: ['quota', 'window', 'drain', 'unit', 'full'],
  cells: [{ name: 'mode' }, { name: 'tokens' }, { name: 'time', ticks: 1 }],
  initialState: [FRESH, 0, 0],
  deriveParameters,
  maxValue: (params) => params.full,
  step,
  adjust,
  convert,
  toShared,
  lua,
}
