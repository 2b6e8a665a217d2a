import type { Algorithm, Outcome, Parameters } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'

/**
 * `exponential`: the rate of a client is measured, as Exim does it, and a request is admitted while the rate it makes is no
 * more than `quota` per `window`.
 *
 * State `(r, last)`: the smoothed number of requests per window, and when it was measured. With `x = max(t − last, 1) / window`
 * and `a = e^−x` a request of cost `n` makes it `r' = max(n, n · (1 − a) / x + a · r)`. A key whose `r` has decayed below one
 * half is new, and a new key's first request makes `r' = n`; so `reset` is when it will have, and no wait is longer. (With a
 * quota of 1 that is after 0.69 of a window.) What remains is `⌊quota − r⌋`, admitted however it is split up; after a pause a
 * single request may get a little more.
 *
 * `e^−x` and `ln` are computed here from + − × ÷, so that TypeScript and Lua agree to the bit.
 *
 * @see Exim's specification, "Ratelimiting incoming messages"
 */
type Name = 'quota' | 'window'

// Both from fdlibm, https://www.netlib.org/fdlibm/e_exp.c and e_log.c: x · coth(x / 2) − 2 as a polynomial in x², for
// |x| ≤ ln 2 / 2, and (ln(1 + f) − f) / s + f as one in s², with s = f / (2 + f).
const P = [
  0.16666666666666602, -0.0027777777777015593, 0.00006613756321437934, -0.0000016533902205465252, 4.1381367970572385e-8,
] as const
const L = [
  0.6666666666666735, 0.3999999999940942, 0.2857142874366239, 0.22222198432149784, 0.1818357216161805,
  0.15313837699209373, 0.14798198605116586,
] as const
const LN2 = 0.6931471805599453
// ln 2 in two parts, the first of so few digits that small multiples of it are exact.
const LN2_HIGH = 0.6931471803691238
const LN2_LOW = 1.9082149292705877e-10
const SQRT2 = 1.4142135623730951

/** `(1 − e^−x) / x` for `|x| ≤ ln 2 / 2`: exact to the last digit or two, also where `1 − e^−x` would lose them. */
function nearZero(x: number): number {
  const q = x * x
  return 2 / (2 + x + q * (P[0] + q * (P[1] + q * (P[2] + q * (P[3] + q * P[4])))))
}

/** `e^−x` for `0 ≤ x ≤ 100`. */
function decay(x: number): number {
  let halvings = Math.floor(x / LN2 + 0.5)
  const f = x - halvings * LN2_HIGH - halvings * LN2_LOW
  let a = 1 - f * nearZero(f)
  for (; halvings >= 16; halvings -= 16) a = a / 65536
  for (; halvings > 0; halvings--) a = a / 2
  return a
}

/** `(1 − a) / x` with `a = e^−x`: what of a request still counts when the time since the last one is taken for its own. */
function share(x: number, a: number): number {
  return x < 0.25 ? nearZero(x) : (1 - a) / x
}

/** `ln y` for `y ≥ 1`. */
function ln(y: number): number {
  let doublings = 0
  for (; y > 65536; y = y / 65536) doublings += 16
  for (; y > SQRT2; y = y / 2) doublings++
  const f = y - 1
  const s = f / (2 + f)
  const z = s * s
  const rest = z * (L[0] + z * (L[1] + z * (L[2] + z * (L[3] + z * (L[4] + z * (L[5] + z * L[6]))))))
  return doublings * LN2_HIGH - (s * (f - rest) - doublings * LN2_LOW - f)
}

/** A saturated rate: so much more than the quota that a second request in the same tick is denied as well. */
function full(params: Parameters<Name>): number {
  return params.quota + (2 * params.quota) / params.window
}

/** Ticks until `r` has decayed below one half. */
function life(params: Parameters<Name>, r: number): number {
  return r < 0.5 ? 0 : Math.floor(params.window * ln(2 * r)) + 1
}

/** What `moment` was last asked, and its answer. */
const asked: { params: Parameters<Name> | undefined; r: number; n: number; answer: number } = {
  params: undefined,
  r: 0.5,
  n: 0,
  answer: 0.5,
}

/**
 * The same as `moment`. A denial changes nothing, so that a client who hammers asks for one and the same tick each time; to
 * remember it takes a denial of one hot key from twice the time of `gcra` to as much.
 */
function rememberedMoment(params: Parameters<Name>, r: number, elapsed: number, n: number): number {
  if (asked.params === params && asked.r === r && asked.n === n && elapsed < asked.answer) return asked.answer
  asked.params = params
  asked.r = r
  asked.n = n
  return (asked.answer = moment(params, r, elapsed, n))
}

/**
 * The first tick after `last` at which `n` is admitted, given that it is not `elapsed` ticks after. The rate falls ever more
 * slowly, so that Newton's steps from the left do not pass it; what rounding leaves is bisected.
 */
function moment(params: Parameters<Name>, r: number, elapsed: number, n: number): number {
  let low = Math.max(elapsed, 1)
  let high = life(params, r)
  let passed = 0
  while (high - low > 1) {
    let k = passed === 1 ? high - 1 : low + Math.floor((high - low) / 2)
    if (passed === 0) {
      const x = low / params.window
      const a = decay(x)
      const over = n * share(x, a) + a * r - params.quota
      const slope = n * (x < 0.25 ? 0.5 - x / 3 + (x * x) / 8 : (share(x, a) - a) / x) + a * r
      k = Math.min(low + Math.max(1, Math.ceil((over / slope) * params.window)), high - 1)
    }
    const x = k / params.window
    const a = decay(x)
    if (n * share(x, a) + a * r <= params.quota) {
      high = k
      passed++
    } else low = k
  }
  return high
}

function step(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  n: number,
  out: Outcome,
): void {
  const r = cells[offset]!
  const last = cells[offset + 1]!
  const elapsed = Math.max(0, now - last)
  const span = life(params, r)
  const fresh = elapsed >= span
  const t = fresh ? now : Math.max(now, last)
  const x = fresh ? 1 : Math.max(elapsed, 1) / params.window
  const a = fresh ? 0 : decay(x)
  const held = elapsed === 0 && !fresh ? r : a * r

  const rate = fresh ? n : Math.max(n, n * share(x, a) + a * r)
  const allowed = n === 0 || rate <= params.quota
  const persist = !allowed && params.strict === 1
  const touched = persist || (allowed && n > 0)
  const kept = persist ? Math.max(held, full(params)) : touched ? rate : held

  const never = n > params.quota
  const wait =
    allowed || never ? 0 : persist ? moment(params, kept, 0, n) : rememberedMoment(params, r, elapsed, n) - elapsed
  const reset = touched ? life(params, kept) : fresh ? 0 : span - elapsed

  out.allowed = allowed
  out.at = t
  out.retry = allowed ? 0 : never ? Infinity : wait + (t - now)
  out.remaining = Math.max(0, Math.floor(params.quota - kept))
  out.reset = reset === 0 ? 0 : reset + (t - now)
  out.delay = 0
  out.charged = rate - a * r
  out.persist = persist
  out.next[0] = kept
  out.next[1] = t
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
  const r = cells[offset]!
  const last = cells[offset + 1]!
  const elapsed = Math.max(0, now - last)
  const fresh = elapsed >= life(params, r)
  const t = fresh ? now : Math.max(now, last)
  const held = fresh ? 0 : elapsed === 0 ? r : r * decay(elapsed / params.window)
  // What a charge still adds to what was measured last.
  const given = r + units * decay(Math.min(Math.max(0, last - then) / params.window, 100))
  // What was measured since may be as much as a request makes by itself, whatever was there before.
  const unsure = params.conservative === 1 && units < 0 && last > then
  out.persist = units > 0 || (!fresh && given !== r && !unsure)
  out.next[0] = units > 0 ? Math.min(held + units, LARGEST) : Math.max(0, given)
  out.next[1] = units > 0 ? t : last
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const r = cells[offset]!
  const elapsed = Math.max(0, rescale(now, params, from) - cells[offset + 1]!)
  const fresh = elapsed >= life(from, r)
  const held = fresh ? 0 : elapsed === 0 ? r : r * decay(elapsed / from.window)
  const last = -rescale(-cells[offset + 1]!, from, params)
  const same = from.window / from.perMs === params.window / params.perMs && held <= full(params)
  out.next[0] = fresh ? 0 : same ? r : Math.min(held, full(params))
  out.next[1] = fresh ? 0 : same ? last : Math.max(now, last)
}

const lua = `
local function nearZero(x)
  local q = x * x
  return 2 / (2 + x + q * (${P[0]} + q * (${P[1]} + q * (${P[2]} + q * (${P[3]} + q * ${P[4]})))))
end

local function decay(x)
  local halvings = floor(x / ${LN2} + 0.5)
  local f = x - halvings * ${LN2_HIGH} - halvings * ${LN2_LOW}
  local a = 1 - f * nearZero(f)
  while halvings >= 16 do a, halvings = a / 65536, halvings - 16 end
  while halvings > 0 do a, halvings = a / 2, halvings - 1 end
  return a
end

local function share(x, a)
  return x < 0.25 and nearZero(x) or (1 - a) / x
end

local function ln(y)
  local doublings = 0
  while y > 65536 do y, doublings = y / 65536, doublings + 16 end
  while y > ${SQRT2} do y, doublings = y / 2, doublings + 1 end
  local f = y - 1
  local s = f / (2 + f)
  local z = s * s
  local rest = z * (${L[0]} + z * (${L[1]} + z * (${L[2]} + z * (${L[3]} + z * (${L[4]} + z * (${L[5]} + z * ${L[6]}))))))
  return doublings * ${LN2_HIGH} - (s * (f - rest) - doublings * ${LN2_LOW} - f)
end

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

local function advance(params, cells, offset, now)
  local rate, last = cells[offset + 1], cells[offset + 2]
  local elapsed, span = max(0, now - last), life(params, rate)
  local isFresh = elapsed >= span
  return isFresh and now or max(now, last), isFresh, elapsed, span
end

local function step(params, cells, offset, now, cost)
  local quota, window, rate = params.quota, params.window, cells[offset + 1]
  local time, isFresh, elapsed, span = advance(params, cells, offset, now)
  local x = isFresh and 1 or max(elapsed, 1) / window
  local a = isFresh and 0 or decay(x)
  local held = elapsed == 0 and not isFresh and rate or a * rate

  local after = isFresh and cost or max(cost, cost * share(x, a) + a * rate)
  local allowed = cost == 0 or after <= quota
  local persist = not allowed and params.strict == 1
  local isTouched = persist or (allowed and cost > 0)
  local kept = persist and max(held, full(params)) or isTouched and after or held

  local lag = time - now
  local retry = 0
  if not allowed and cost > quota then retry = huge
  elseif not allowed then
    retry = lag + (persist and moment(params, kept, 0, cost) or moment(params, rate, elapsed, cost) - elapsed)
  end
  local reset = isTouched and life(params, kept) or isFresh and 0 or span - elapsed
  if reset > 0 then reset = reset + lag end
  return allowed, time, retry, max(0, floor(quota - kept)), reset, 0, after - a * rate, persist, kept, time
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local rate, last = cells[offset + 1], cells[offset + 2]
  local time, isFresh, elapsed = advance(params, cells, offset, now)
  local held = isFresh and 0 or elapsed == 0 and rate or rate * decay(elapsed / params.window)
  local given = rate + units * decay(min(max(0, last - chargedAt) / params.window, 100))
  local isUnsure = params.conservative == 1 and units < 0 and last > chargedAt
  local persist = units > 0 or (not isFresh and given ~= rate and not isUnsure)
  if units > 0 then return persist, min(held + units, LARGEST), time end
  return persist, max(0, given), last
end

local function convert(params, from, cells, offset, now)
  local rate = cells[offset + 1]
  local _, isFresh, elapsed = advance(from, cells, offset, rescale(now, params, from))
  if isFresh then return 0, 0 end
  local held = elapsed == 0 and rate or rate * decay(elapsed / from.window)
  local last = -rescale(-cells[offset + 2], from, params)
  local isSame = from.window / from.perMs == params.window / params.perMs and held <= full(params)
  return isSame and rate or min(held, full(params)), isSame and last or max(now, last)
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
