import type { Algorithm, LimitParameters } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'

// e^−x and ln are computed with + − × ÷ only, so that TypeScript and Lua have exactly the same results. Math.exp and Math.log differ between
// platforms.

// The coefficients are from fdlibm, https://www.netlib.org/fdlibm/e_exp.c and e_log.c. P is x · coth(x / 2) − 2 as a polynomial in x², for
// |x| ≤ ln 2 / 2. L is (ln(1 + f) − f) / s + f as a polynomial in s², with s = f / (2 + f).
const P = [
  0.16666666666666602, -0.0027777777777015593, 0.00006613756321437934, -0.0000016533902205465252, 4.1381367970572385e-8,
] as const
const L = [
  0.6666666666666735, 0.3999999999940942, 0.2857142874366239, 0.22222198432149784, 0.1818357216161805,
  0.15313837699209373, 0.14798198605116586,
] as const
const LN2 = 0.6931471805599453
// ln 2 in two parts. The first part has few digits, so that small multiples of it are exact.
const LN2_HIGH = 0.6931471803691238
const LN2_LOW = 1.9082149292705877e-10
const SQRT2 = 1.4142135623730951

/** Returns `(1 − e^−x) / x` for `|x| ≤ ln 2 / 2`. Only the last one or two digits may be wrong, also for a small `x`. */
function nearZero(x: number): number {
  const q = x * x
  return 2 / (2 + x + q * (P[0] + q * (P[1] + q * (P[2] + q * (P[3] + q * P[4])))))
}

/** Returns `e^−x` for `0 ≤ x ≤ 100`. */
function decay(x: number): number {
  let halvings = Math.floor(x / LN2 + 0.5)
  const f = x - halvings * LN2_HIGH - halvings * LN2_LOW
  let a = 1 - f * nearZero(f)
  for (; halvings >= 16; halvings -= 16) a = a / 65536
  for (; halvings > 0; halvings--) a = a / 2
  return a
}

/** Returns `(1 − a) / x` with `a = e^−x`: the part of a request that still counts when it is spread over the time since the last request. */
function share(x: number, a: number): number {
  return x < 0.25 ? nearZero(x) : (1 - a) / x
}

/** Returns `ln y` for `y ≥ 1`. */
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

interface Rate {
  readonly quota: number
  readonly window: number
}

/** Returns the rate of a full state. It is above the quota, so that a second request in the same tick is also denied. */
function full({ quota, window }: Rate): number {
  return quota + (2 * quota) / window
}

/** Returns the ticks until a rate has decayed below one half. */
function life({ window }: Rate, rate: number): number {
  return rate < 0.5 ? 0 : Math.floor(window * ln(2 * rate)) + 1
}

/**
 * `exponential`: measures the rate of a client with the method of Exim. A request is admitted if the rate, including this request, is at
 * most `quota` per `window`.
 *
 * State `(r, last)`: the smoothed number of requests per window, and when it was measured. With `x = max(t − last, 1) / window`
 * and `a = e^−x`, a request of cost `n` changes it to `r' = max(n, n · (1 − a) / x + a · r)`. A key is new again when its `r` has decayed
 * below one half. The first request of a new key makes `r' = n`. So `reset` is the time until the key is new, and no wait is longer.
 * `⌊quota − r⌋` units remain, for one request or for several. After a pause a single request can get a little more.
 *
 * @see Exim's specification, "Ratelimiting incoming messages"
 */
type Name = 'quota' | 'window'

/**
 * Returns the number of ticks after the last charge at which `cost` is first admitted. At `elapsed` ticks it is not admitted yet. The rate
 * falls more and more slowly, so Newton's steps from the left pass the result only by rounding. The steps back find the exact tick.
 */
function moment(params: LimitParameters<Name>, rate: number, elapsed: number, cost: number): number {
  const { quota, window } = params
  const last = life(params, rate)
  let tick = Math.max(elapsed, 1)
  while (tick < last) {
    const x = tick / window
    const a = decay(x)
    const part = share(x, a)
    const over = cost * part + a * rate - quota
    if (over <= 0) break
    const slope = cost * (x < 0.25 ? 0.5 - x / 3 + (x * x) / 8 : (part - a) / x) + a * rate
    tick = Math.min(tick + Math.max(1, Math.ceil((over / slope) * window)), last)
  }
  while (tick - 1 > elapsed && isAdmitted(params, rate, tick - 1, cost)) tick--
  return tick
}

function isAdmitted({ quota, window }: Rate, rate: number, elapsed: number, cost: number): boolean {
  const x = elapsed / window
  const a = decay(x)
  return cost * share(x, a) + a * rate <= quota
}

const advanced = { time: 0.5, isFresh: true, elapsed: 0.5, span: 0.5 }

/** Returns the time of the step, whether the key is new at that time, the ticks since the last charge, and the ticks that the charge lasts. */
function advance(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
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

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out) => {
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
  const never = cost > quota
  const since = persist ? 0 : elapsed
  const wait = allowed || never ? 0 : moment(params, persist ? kept : rate, since, cost) - since
  const reset = isTouched ? life(params, kept) : isFresh ? 0 : span - elapsed

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : never ? Infinity : wait + lag
  out.remaining = Math.max(0, Math.floor(quota - kept))
  out.reset = reset > 0 ? reset + lag : 0
  out.delay = 0
  out.charged = after - a * rate
  out.persist = persist
  // Without a charge the state does not change: a second decay would round it, and the wait would be a tick too short.
  out.next[0] = isTouched ? kept : rate
  out.next[1] = isTouched ? time : cells[offset + 1]!
}

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
  const rate = cells[offset]!
  const last = cells[offset + 1]!
  const { time, isFresh, elapsed } = advance(params, cells, offset, now)
  const held = isFresh ? 0 : elapsed === 0 ? rate : rate * decay(elapsed / params.window)
  // A later measurement may be the rate of one request alone, without any part of this charge.
  const isLeft = !isFresh && last <= chargedAt
  out.persist = units > 0 || isLeft
  out.next[0] = units > 0 ? Math.min(held + units, LARGEST) : Math.max(0, rate + units)
  out.next[1] = units > 0 ? time : last
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
  const rate = cells[offset]!
  const { isFresh, elapsed } = advance(from, cells, offset, rescale(now, params, from))
  const held = isFresh ? 0 : elapsed === 0 ? rate : rate * decay(elapsed / from.window)
  const last = -rescale(-cells[offset + 1]!, from, params)
  const isSameWindow = from.window / from.perMs === params.window / params.perMs
  const isSame = isSameWindow && held <= full(params)
  out.next[0] = isFresh ? 0 : isSame ? rate : Math.min(held, full(params))
  out.next[1] = isFresh ? 0 : isSame ? last : Math.max(now, last)
  out.charged = isSameWindow ? Math.max(0, held - full(params)) : 0
}

/**
 * Denies requests while the measured rate, smoothed exponentially over `window`, exceeds `quota`. Up to twice the quota can pass in a
 * window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example exponential({ quota: 100, window: '1h', strict: true })
 */
export const exponential: Algorithm<Name> = {
  name: 'exponential',
  options: [],
  parameters: ['quota', 'window'],
  cells: [{ name: 'rate' }, { name: 'last', ticks: 1, newest: true }],
  initialState: [0, 0],
  deriveParameters: (input) => ({ quota: input.quota, window: input.window }),
  // A rate never lasts longer than 40 windows: ln(2 · 2^52) < 37.
  maxValue: (params) => Math.max(params.quota, 40 * params.window),
  step,
  adjust,
  convert,
}
