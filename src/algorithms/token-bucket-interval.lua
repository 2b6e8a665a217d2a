-- The functions of `token-bucket-interval.ts` in Lua.

local function advance(params, cells, offset, now)
  local used, start = cells[offset + 1], cells[offset + 2]
  local refills = floor(max(0, now - start) / params.window)
  if refills >= ceil(used / params.quota) then return now, now, 0 end
  return max(now, start), start + refills * params.window, used - refills * params.quota
end

local function step(params, cells, offset, now, cost)
  local quota, window, capacity = params.quota, params.window, params.capacity
  local time, start, used = advance(params, cells, offset, now)

  local allowed = cost == 0 or cost <= capacity - used
  local kept = allowed and used + cost or used

  local wait = start + ceil((kept + cost - capacity) / quota) * window - now
  local retry = allowed and 0 or cost > capacity and huge or wait
  local reset = start + ceil(kept / quota) * window - now
  return allowed, time, retry, max(0, capacity - kept), reset, 0, cost, false, kept, start
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local quota, window = params.quota, params.window
  local time, start, used = advance(params, cells, offset, now)
  local most = min(LARGEST, floor(LARGEST / window) * quota)
  local refills = chargedAt < start and floor((now - chargedAt) / window) + 1 or 0
  local change = units < 0 and min(0, units + refills * quota) or units
  local kept = min(max(0, used + change), most)
  return units > 0 or used > 0, kept, kept == 0 and time or start
end

local function convert(params, from, cells, offset, now)
  local _, began, used = advance(from, cells, offset, rescale(now, params, from))
  local start = -rescale(-began, from, params)
  local isSame = from.window / from.perMs == params.window / params.perMs
  local last = used == 0 and -huge or isSame and start or max(now, -rescale(-cells[offset + 2], from, params))
  local kept = min(used, params.capacity)
  return kept, last, isSame and used - kept or 0
end

return { step = step, adjust = adjust, convert = convert }
