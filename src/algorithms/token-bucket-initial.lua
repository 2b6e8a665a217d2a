-- The functions of `token-bucket-initial.ts` in Lua. `bucket` has the functions of the inner bucket.

-- The cells of a bucket that was never seen, and of a new bucket with fewer tokens.
local blank, empty = { 0, -huge }, {}

local function newborn(params, now)
  local _
  _, _, _, _, _, _, _, _, empty[1], empty[2] = bucket.step(params, blank, 0, now, params.taken)
  return empty, 0
end

local function untilFull(params, first, second, now)
  local _, _, _, _, reset = bucket.step(params, { first, second }, 0, now, 0)
  return reset
end

local function advance(params, cells, offset, now)
  local renewal = cells[offset + 3]
  if now < renewal then return renewal, false, cells, offset end
  return renewal, true, newborn(params, now)
end

local function step(params, cells, offset, now, cost)
  local renewal, isNew, from, at = advance(params, cells, offset, now)
  local allowed, time, retry, remaining, reset, delay, charged, persist, first, second =
    bucket.step(params, from, at, now, cost)
  persist = persist or (not allowed and isNew and params.taken > 0)
  local isTouched = persist or (allowed and cost > 0)
  local following = isTouched and max(renewal, now + reset + params.idle) or renewal
  local left = max(0, following - now)
  return allowed, time, retry, remaining, left, delay, charged, persist, first, second, following
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local renewal, isNew, from, at = advance(params, cells, offset, now)
  local persist, first, second = bucket.adjust(params, from, at, now, chargedAt, units)
  persist = persist and (units > 0 or not isNew)
  if units <= 0 then return persist, first, second, renewal end
  return persist, first, second, max(renewal, now + untilFull(params, first, second, now) + params.idle)
end

local function convert(params, from, cells, offset, now)
  local first, second, cut = bucket.convert(params, from, cells, offset, now)
  local renewal = from.idle and cells[offset + 3] or -huge
  local isNew = rescale(now, params, from) >= renewal
  local full = isNew and -huge or min(now, -rescale(from.idle - renewal, from, params))
  local left = untilFull(params, first, second, now)
  return first, second, (left > 0 and now + left or full) + params.idle, cut
end

return { step = step, adjust = adjust, convert = convert }
