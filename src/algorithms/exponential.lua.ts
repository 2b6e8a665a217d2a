import { luaMath } from './exponential.ts'

/** Behind the functions of `luaMath`. */
const text = `
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

/** The functions of `exponential.ts` in Lua. */
export const lua: Readonly<Record<string, string>> = { exponential: luaMath() + text }
