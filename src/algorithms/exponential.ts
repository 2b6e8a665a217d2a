import type { Algorithm, Outcome, Parameters } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { decay, ln, luaMath, share } from './exponential-math.ts'

/**
 * `exponential`: the rate of a client is measured, as Exim does it, and a request is admitted while the rate it makes is no
 * more than `quota` per `window`.
 *
 * State `(r, last)`: the smoothed number of requests per window, and when it was measured. With `x = max(t − last, 1) / window`
 * and `a = e^−x` a request of cost `n` makes it `r' = max(n, n · (1 − a) / x + a · r)`. A key whose `r` has decayed below one
 * half is new, and a new key's first request makes `r' = n`; so `reset` is when it will have, and no wait is longer. What
 * remains is `⌊quota − r⌋`, admitted however it is split up; after a pause a single request may get a little more.
 *
 * @see Exim's specification, "Ratelimiting incoming messages"
 */
type Name = 'quota' | 'window'

/** Returns a saturated rate: so much more than the quota that a second request in the same tick is denied as well. */
function full({ quota, window }: Parameters<Name>): number {
  return quota + (2 * quota) / window
}

/** Returns the ticks until a rate has decayed below one half. */
function life({ window }: Parameters<Name>, rate: number): number {
  return rate < 0.5 ? 0 : Math.floor(window * ln(2 * rate)) + 1
}

/**
 * Returns the first tick after the last charge at which `cost` is admitted, given that it is not `elapsed` ticks after. The rate
 * falls ever more slowly, so that Newton's steps from the left do not pass it; what rounding leaves is bisected.
 */
function moment(params: Parameters<Name>, rate: number, elapsed: number, cost: number): number {
  const { quota, window } = params
  let low = Math.max(elapsed, 1)
  let high = life(params, rate)
  let passed = 0
  while (high - low > 1) {
    let k = passed === 1 ? high - 1 : low + Math.floor((high - low) / 2)
    if (passed === 0) {
      const x = low / window
      const a = decay(x)
      const over = cost * share(x, a) + a * rate - quota
      const slope = cost * (x < 0.25 ? 0.5 - x / 3 + (x * x) / 8 : (share(x, a) - a) / x) + a * rate
      k = Math.min(low + Math.max(1, Math.ceil((over / slope) * window)), high - 1)
    }
    const x = k / window
    const a = decay(x)
    if (cost * share(x, a) + a * rate <= quota) {
      high = k
      passed++
    } else low = k
  }
  return high
}

/** What `advance` returns. One object serves every call, so that a step allocates nothing. */
const advanced = { time: 0.5, isFresh: true, elapsed: 0.5, span: 0.5 }

/** Returns the time that counts at `now`, whether the key is new by then, the ticks since the last charge and those it lasts. */
function advance(params: Parameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const last = cells[offset + 1]!
  const elapsed = Math.max(0, now - last)
  const span = life(params, cells[offset]!)
  const isFresh = elapsed >= span
  advanced.time = isFresh ? now : Math.max(now, last)
  advanced.isFresh = isFresh
  advanced.elapsed = elapsed
  advanced.span = span
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
  const { quota, window } = params
  const rate = cells[offset]!
  const { time, isFresh, elapsed, span } = advance(params, cells, offset, now)
  const x = isFresh ? 1 : Math.max(elapsed, 1) / window
  const a = isFresh ? 0 : decay(x)
  const held = elapsed === 0 && !isFresh ? rate : a * rate

  const after = isFresh ? cost : Math.max(cost, cost * share(x, a) + a * rate)
  const allowed = cost === 0 || after <= quota
  const persist = !allowed && params.strict === 1
  const isTouched = persist || (allowed && cost > 0)
  const kept = persist ? Math.max(held, full(params)) : isTouched ? after : held

  const lag = time - now
  const from = persist ? 0 : elapsed
  const reset = isTouched ? life(params, kept) : isFresh ? 0 : span - elapsed

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : cost > quota ? Infinity : lag + moment(params, persist ? kept : rate, from, cost) - from
  out.remaining = Math.max(0, Math.floor(quota - kept))
  out.reset = reset > 0 ? reset + lag : 0
  out.delay = 0
  out.charged = after - a * rate
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
  const rate = cells[offset]!
  const last = cells[offset + 1]!
  const { time, isFresh, elapsed } = advance(params, cells, offset, now)
  const held = isFresh ? 0 : elapsed === 0 ? rate : rate * decay(elapsed / params.window)
  // What a charge still adds to what was measured last.
  const given = rate + units * decay(Math.min(Math.max(0, last - chargedAt) / params.window, 100))
  // What was measured since may be as much as a request makes by itself, whatever was there before.
  const isUnsure = params.conservative === 1 && units < 0 && last > chargedAt
  out.persist = units > 0 || (!isFresh && given !== rate && !isUnsure)
  out.next[0] = units > 0 ? Math.min(held + units, LARGEST) : Math.max(0, given)
  out.next[1] = units > 0 ? time : last
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const rate = cells[offset]!
  const { isFresh, elapsed } = advance(from, cells, offset, rescale(now, params, from))
  const held = isFresh ? 0 : elapsed === 0 ? rate : rate * decay(elapsed / from.window)
  const last = -rescale(-cells[offset + 1]!, from, params)
  const isSame = from.window / from.perMs === params.window / params.perMs && held <= full(params)
  out.next[0] = isFresh ? 0 : isSame ? rate : Math.min(held, full(params))
  out.next[1] = isFresh ? 0 : isSame ? last : Math.max(now, last)
}

const lua = `${luaMath}
local function full(p)
  return p.quota + (2 * p.quota) / p.window
end

local function life(p, r)
  return r < 0.5 and 0 or floor(p.window * ln(2 * r)) + 1
end

local function moment(p, r, elapsed, n)
  local low = max(elapsed, 1)
  local high = life(p, r)
  local passed = 0
  while high - low > 1 do
    local k = passed == 1 and high - 1 or low + floor((high - low) / 2)
    if passed == 0 then
      local x = low / p.window
      local a = decay(x)
      local over = n * share(x, a) + a * r - p.quota
      local slope = n * (x < 0.25 and 0.5 - x / 3 + (x * x) / 8 or (share(x, a) - a) / x) + a * r
      k = min(low + max(1, ceil((over / slope) * p.window)), high - 1)
    end
    local x = k / p.window
    local a = decay(x)
    if n * share(x, a) + a * r <= p.quota then
      high = k
      passed = passed + 1
    else low = k end
  end
  return high
end

local function step(p, s, now, n, out)
  local r, last = s[1], s[2]
  local elapsed = max(0, now - last)
  local span = life(p, r)
  local fresh = elapsed >= span
  local t = fresh and now or max(now, last)
  local x = fresh and 1 or max(elapsed, 1) / p.window
  local a = fresh and 0 or decay(x)
  local held = elapsed == 0 and not fresh and r or a * r

  local rate = fresh and n or max(n, n * share(x, a) + a * r)
  local allowed = n == 0 or rate <= p.quota
  local persist = not allowed and p.strict == 1
  local touched = persist or (allowed and n > 0)
  local kept = persist and max(held, full(p)) or touched and rate or held

  local never = n > p.quota
  local wait = (allowed or never) and 0 or persist and moment(p, kept, 0, n) or moment(p, r, elapsed, n) - elapsed
  local reset = touched and life(p, kept) or fresh and 0 or span - elapsed

  out.allowed = allowed
  out.at = t
  out.retry = allowed and 0 or never and huge or wait + (t - now)
  out.remaining = max(0, floor(p.quota - kept))
  out.reset = reset == 0 and 0 or reset + (t - now)
  out.delay = 0
  out.charged = rate - a * r
  out.persist = persist
  out.next[1] = kept
  out.next[2] = t
end

local function adjust(p, s, now, when, units, out)
  local r, last = s[1], s[2]
  local elapsed = max(0, now - last)
  local fresh = elapsed >= life(p, r)
  local t = fresh and now or max(now, last)
  local held = fresh and 0 or elapsed == 0 and r or r * decay(elapsed / p.window)
  local given = r + units * decay(min(max(0, last - when) / p.window, 100))
  local unsure = p.conservative == 1 and units < 0 and last > when
  out.persist = units > 0 or (not fresh and given ~= r and not unsure)
  out.next[1] = units > 0 and min(held + units, LARGEST) or max(0, given)
  out.next[2] = units > 0 and t or last
end

local function convert(p, from, s, now, out)
  local r = s[1]
  local elapsed = max(0, rescale(now, p, from) - s[2])
  local fresh = elapsed >= life(from, r)
  local held = fresh and 0 or elapsed == 0 and r or r * decay(elapsed / from.window)
  local last = -rescale(-s[2], from, p)
  local same = from.window / from.perMs == p.window / p.perMs and held <= full(p)
  out.next[1] = fresh and 0 or same and r or min(held, full(p))
  out.next[2] = fresh and 0 or same and last or max(now, last)
end

return { step = step, adjust = adjust, convert = convert }
`

/** Exponential: the measured rate of requests per window. */
export const exponential: Algorithm<Name> = {
  name: 'exponential',
  options: [],
  parameters: ['quota', 'window'],
  cells: [{ name: 'rate' }, { name: 'last', ticks: 1 }],
  initialState: [0, 0],
  deriveParameters: (input) => ({ quota: input.quota, window: input.window }),
  // No life is longer: ln(2 · 2^52) < 37.
  maxValue: (params) => Math.max(params.quota, 40 * params.window),
  step,
  adjust,
  convert,
  lua,
}
