// e^−x and ln computed from + − × ÷, so that TypeScript and Lua agree to the bit. Math.exp and Math.log differ between platforms.

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

/** Returns `(1 − e^−x) / x` for `|x| ≤ ln 2 / 2`: exact but for the last digit or two, also where `1 − e^−x` would lose them. */
function nearZero(x: number): number {
  const q = x * x
  return 2 / (2 + x + q * (P[0] + q * (P[1] + q * (P[2] + q * (P[3] + q * P[4])))))
}

/** Returns `e^−x` for `0 ≤ x ≤ 100`. */
export function decay(x: number): number {
  let halvings = Math.floor(x / LN2 + 0.5)
  const f = x - halvings * LN2_HIGH - halvings * LN2_LOW
  let a = 1 - f * nearZero(f)
  for (; halvings >= 16; halvings -= 16) a = a / 65536
  for (; halvings > 0; halvings--) a = a / 2
  return a
}

/** Returns `(1 − a) / x` with `a = e^−x`: what of a request still counts when it is spread over the time since the last one. */
export function share(x: number, a: number): number {
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

/** A quota per window, in ticks. */
interface Rate {
  readonly quota: number
  readonly window: number
}

/** Returns the rate of a full state: so much more than the quota that a second request in the same tick is denied, too. */
export function full({ quota, window }: Rate): number {
  return quota + (2 * quota) / window
}

/** Returns the ticks until a rate has decayed below one half. */
export function life({ window }: Rate, rate: number): number {
  return rate < 0.5 ? 0 : Math.floor(window * ln(2 * rate)) + 1
}

/** Returns the same functions in Lua. */
export function luaMath(): string {
  return `
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
`
}
