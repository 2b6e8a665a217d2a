import { type Algorithm, type LimitParameters, type Outcome, type ParameterInput, restart } from './algorithm.ts'
import { convertDebt, gcd, LARGEST, rescale, unitsAbove } from './arithmetic.ts'

/**
 * `quotaLinear`: Tony Finch's hybrid of a fixed window and a linear limit. Prefer `gcra`, as Tony Finch does.
 *
 * A client with little traffic may burst: it has a fixed window of `quota` tokens, and no token returns in this mode. The request that
 * takes the last token starts the smooth mode: tokens return at an even rate, after a penalty that lasts until the end of the
 * window. A bucket that is full again is like a new one. A request of several units equals several requests of one unit in
 * the same tick.
 *
 * State `(mode, b, time, start)`. `b` is the tokens that are left: a token is stored as `unit = window / g`, with `g = gcd(quota, window)`.
 * Each tick adds `drain = quota / g`, so nothing is rounded. `start` is the start of the window: charges before it are over, also in
 * smooth mode. In bursty mode, `time` is `start`, and at least one token is left. In smooth mode, `time` is the time when `b` was counted.
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

const advanced = { mode: FRESH, tokens: 0.5, time: 0.5, start: 0.5 }

/** Returns the mode and the tokens at `now`, the time of the step, and the start of the window. */
function advance(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const mode = cells[offset]!
  const tokens = cells[offset + 1]!
  const time = cells[offset + 2]!
  const elapsed = Math.max(0, now - time)
  const life = mode === BURSTY ? params.window : Math.ceil((params.full - tokens) / params.drain)
  const isFresh = mode === FRESH || elapsed >= life
  const latest = isFresh ? now : Math.max(now, time)
  advanced.mode = isFresh ? FRESH : mode
  advanced.tokens = isFresh ? params.full : mode === BURSTY ? tokens : tokens + elapsed * params.drain
  advanced.time = latest
  advanced.start = isFresh ? now : cells[offset + 3]!
  return advanced
}

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out) => {
  const { quota, drain, unit, full } = params
  const { mode, tokens, time, start } = advance(params, cells, offset, now)
  const left = start + params.window - time

  const allowed = cost === 0 || (cost <= quota && cost * unit <= tokens)
  const persist = !allowed && params.strict === 1
  const after = allowed ? tokens - cost * unit : persist ? Math.min(tokens, 0) : tokens
  const isLast = mode !== SMOOTH && after <= 0
  const kept = isLast ? unit - left * drain : after

  const lag = time - now
  const isSmooth = isLast || mode === SMOOTH
  const wait = isSmooth ? Math.ceil((cost * unit - kept) / drain) : left
  const reset = isSmooth ? Math.ceil((full - kept) / drain) : kept < full ? left : 0

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : cost > quota ? Infinity : wait + lag
  out.remaining = Math.max(0, Math.floor(kept / unit))
  out.reset = reset > 0 ? reset + lag : 0
  out.delay = 0
  out.charged = cost
  out.persist = persist
  out.next[0] = isSmooth ? SMOOTH : BURSTY
  out.next[1] = kept
  out.next[2] = isSmooth ? time : start
  out.next[3] = start
}

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
  const { drain, unit, full } = params
  const { mode, tokens, time, start } = advance(params, cells, offset, now)
  const left = start + params.window - time

  // All tokens that have returned since then may have been part of this charge.
  const drained = mode === SMOOTH ? Math.max(0, now - chargedAt) * drain : 0
  const change = units < 0 ? Math.min(0, units * unit + drained) : units * unit
  const after = Math.min(tokens - change, full)
  const isLast = mode !== SMOOTH && after <= 0
  const isSmooth = isLast || mode === SMOOTH
  out.persist = units > 0 || (mode !== FRESH && chargedAt >= start)
  out.next[0] = after === full ? FRESH : isSmooth ? SMOOTH : BURSTY
  out.next[1] = Math.max(isLast ? after + unit - left * drain : after, -LARGEST)
  out.next[2] = isSmooth ? time : start
  out.next[3] = start
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
  const { mode, tokens } = advance(from, cells, offset, rescale(now, params, from))
  const used = convertDebt(from.full - tokens, from.unit, params.unit)

  const isSame = from.window / from.perMs === params.window / params.perMs
  const began = -rescale(-cells[offset + 2]!, from, params)
  const time = Math.max(now, began)
  const start = mode === BURSTY && isSame ? began : time
  const isLast = mode === BURSTY && used >= params.full
  // The used units above the quota are the penalty of smooth mode. It is at most the penalty of a whole window.
  const most = isLast
    ? params.full - params.unit + (start + params.window - time) * params.drain
    : 2 * params.full - params.unit
  const cut = unitsAbove(used, most, params.unit)
  out.next[0] = isLast ? SMOOTH : mode
  out.next[1] = mode === FRESH ? 0 : params.full - (isLast ? most : used - cut * params.unit)
  out.next[2] = mode === FRESH ? 0 : isLast ? time : start
  out.next[3] = mode === FRESH ? 0 : start
  out.charged = isSame ? cut : 0
}

/** In smooth mode, any of the keys may have just taken the last token of its window. This is the strictest state after a charge, except a debt. */
function toShared(params: LimitParameters<Name>, out: Outcome): void {
  if (out.next[0] === BURSTY) {
    restart(out, 2)
    out.next[3] = out.at
    return
  }
  const worst = Math.min(out.next[1]!, params.unit - params.window * params.drain)
  out.reset += Math.ceil((out.next[1]! - worst) / params.drain)
  out.next[1] = worst
}

/**
 * Tony Finch's hybrid: allows bursts while a window's quota lasts, then an even rate until the quota is back. Its author
 * prefers `gcra`. At most `2 * quota - 1` units pass in any window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example quotaLinear({ quota: 100, window: '1m' })
 */
export const quotaLinear: Algorithm<Name> = {
  name: 'quotaLinear',
  options: [],
  parameters: ['quota', 'window', 'drain', 'unit', 'full'],
  cells: [{ name: 'mode' }, { name: 'tokens' }, { name: 'time', ticks: 1, newest: true }, { name: 'start', ticks: 1 }],
  initialState: [FRESH, 0, 0, 0],
  deriveParameters,
  maxValue: (params) => params.full,
  step,
  adjust,
  convert,
  toShared,
}
