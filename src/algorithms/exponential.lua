-- The functions of `exponential.ts` in Lua.

local function nearZero(x)
  local q = x * x
  return 2 / (2 + x + q * (0.16666666666666602 + q * (-0.0027777777777015593 + q * (0.00006613756321437934 + q * (-0.0000016533902205465252 + q * 4.1381367970572385e-8)))))
end

local function decay(x)
  local halvings = floor(x / 0.6931471805599453 + 0.5)
  local f = x - halvings * 0.6931471803691238 - halvings * 1.9082149292705877e-10
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
  while y > 1.4142135623730951 do y, doublings = y / 2, doublings + 1 end
  local f = y - 1
  local s = f / (2 + f)
  local z = s * s
  local rest = z * (0.6666666666666735 + z * (0.3999999999940942 + z * (0.2857142874366239 + z * (0.22222198432149784 + z * (0.1818357216161805 + z * (0.15313837699209373 + z * 0.14798198605116586))))))
  return doublings * 0.6931471803691238 - (s * (f - rest) - doublings * 1.9082149292705877e-10 - f)
end

local function full(p)
  return p.quota + (2 * p.quota) / p.window
end

local function life(p, r)
  return r < 0.5 and 0 or floor(p.window * ln(2 * r)) + 1
end

local function isAdmitted(p, r, elapsed, n)
  local x = elapsed / p.window
  local a = decay(x)
  return n * share(x, a) + a * r <= p.quota
end

local function moment(p, r, elapsed, n)
  local last = life(p, r)
  local tick = max(elapsed, 1)
  while tick < last do
    local x = tick / p.window
    local a = decay(x)
    local part = share(x, a)
    local over = n * part + a * r - p.quota
    if over <= 0 then break end
    local slope = n * (x < 0.25 and 0.5 - x / 3 + (x * x) / 8 or (part - a) / x) + a * r
    tick = min(tick + max(1, ceil((over / slope) * p.window)), last)
  end
  while tick - 1 > elapsed and isAdmitted(p, r, tick - 1, n) do tick = tick - 1 end
  return tick
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
  if isFresh then return 0, 0, 0 end
  local held = elapsed == 0 and rate or rate * decay(elapsed / from.window)
  local last = -rescale(-cells[offset + 2], from, params)
  local isSameWindow = from.window / from.perMs == params.window / params.perMs
  local cut = isSameWindow and max(0, held - full(params)) or 0
  if isSameWindow and cut == 0 then return rate, last, 0 end
  return min(held, full(params)), max(now, last), cut
end

return { step = step, adjust = adjust, convert = convert }
