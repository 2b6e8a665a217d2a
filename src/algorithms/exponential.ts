import type { Algorithm, Parameters } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { decay, full, life, share } from './exponential-math.ts'

/**
 * `exponential`: measures the rate of a client as Exim does. A request is admitted if the rate including it is at most
 * `quota` per `window`.
 *
 * State `(r, last)`: the smoothed number of requests per window, and when it was measured. With `x = max(t − last, 1) / window`
 * and `a = e^−x` a request of cost `n` makes it `r' = max(n, n · (1 − a) / x + a · r)`. A key whose `r` has decayed below one
 * half is new, and a new key's first request makes `r' = n`. So `reset` is the time until then, and no wait is longer.
 * `⌊quota − r⌋` units remain, in one request or in several. After a pause a single request can get a little more.
 *
 * @see Exim's specification, "Ratelimiting incoming messages"
 */
type Name = 'quota' | 'window'

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

/** The last result of `moment` for a denial. A denial changes nothing, so a client that retries needs the same tick again. */
const answered: { params?: Parameters<Name>; rate: number; cost: number; tick: number } = {
  rate: 0.5,
  cost: 0,
  tick: 0.5,
}

/** Returns the same as `moment`, and remembers it. That halves the cost of a denial of one hot key. */
function rememberedMoment(params: Parameters<Name>, rate: number, elapsed: number, cost: number): number {
  const isKnown = answered.params === params && answered.rate === rate && answered.cost === cost
  if (isKnown && elapsed < answered.tick) return answered.tick
  answered.params = params
  answered.rate = rate
  answered.cost = cost
  return (answered.tick = moment(params, rate, elapsed, cost))
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
  const wait =
    allowed || never
      ? 0
      : persist
        ? moment(params, kept, 0, cost)
        : rememberedMoment(params, rate, elapsed, cost) - elapsed
  const reset = isTouched ? life(params, kept) : isFresh ? 0 : span - elapsed

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : never ? Infinity : wait + lag
  out.remaining = Math.max(0, Math.floor(quota - kept))
  out.reset = reset > 0 ? reset + lag : 0
  out.delay = 0
  out.charged = after - a * rate
  out.persist = persist
  // Without a charge the state does not change: another decay would round it, and the wait would be a tick too short.
  out.next[0] = isTouched ? kept : rate
  out.next[1] = isTouched ? time : cells[offset + 1]!
}

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
  const rate = cells[offset]!
  const last = cells[offset + 1]!
  const { time, isFresh, elapsed } = advance(params, cells, offset, now)
  const held = isFresh ? 0 : elapsed === 0 ? rate : rate * decay(elapsed / params.window)
  // What was measured since may be the rate of one request alone, whatever the rate was before.
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
  const isSame = from.window / from.perMs === params.window / params.perMs && held <= full(params)
  out.next[0] = isFresh ? 0 : isSame ? rate : Math.min(held, full(params))
  out.next[1] = isFresh ? 0 : isSame ? last : Math.max(now, last)
}

/** The same functions in Lua, without those of `luaMath`. */
export const exponentialLua = `
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
  local remaining, charged = max(0, floor(quota - kept)), after - a * rate
  if not isTouched then return allowed, time, retry, remaining, reset, 0, charged, persist, rate, cells[offset + 2] end
  return allowed, time, retry, remaining, reset, 0, charged, persist, kept, time
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local rate, last = cells[offset + 1], cells[offset + 2]
  local time, isFresh, elapsed = advance(params, cells, offset, now)
  local held = isFresh and 0 or elapsed == 0 and rate or rate * decay(elapsed / params.window)
  local persist = units > 0 or (not isFresh and last <= chargedAt)
  if units > 0 then return persist, min(held + units, LARGEST), time end
  return persist, max(0, rate + units), last
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
  cells: [{ name: 'rate' }, { name: 'last', ticks: 1, newest: true }],
  initialState: [0, 0],
  deriveParameters: (input) => ({ quota: input.quota, window: input.window }),
  // No life is longer: ln(2 · 2^52) < 37.
  maxValue: (params) => Math.max(params.quota, 40 * params.window),
  step,
  adjust,
  convert,
}
