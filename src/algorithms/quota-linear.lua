-- The functions of `quota-linear.ts` in Lua.

local FRESH, BURSTY, SMOOTH = 0, 1, 2

local function advance(params, cells, offset, now)
  local mode, tokens, time, start = cells[offset + 1], cells[offset + 2], cells[offset + 3], cells[offset + 4]
  local elapsed = max(0, now - time)
  local life = mode == BURSTY and params.window or ceil((params.full - tokens) / params.drain)
  if mode == FRESH or elapsed >= life then return FRESH, params.full, now, now end
  local latest = max(now, time)
  if mode == BURSTY then return BURSTY, tokens, latest, start end
  return SMOOTH, tokens + elapsed * params.drain, latest, start
end

local function step(params, cells, offset, now, cost)
  local quota, drain, unit, full = params.quota, params.drain, params.unit, params.full
  local mode, tokens, time, start = advance(params, cells, offset, now)
  local left = start + params.window - time

  local allowed = cost == 0 or (cost <= quota and cost * unit <= tokens)
  local persist = not allowed and params.strict == 1
  local after = allowed and tokens - cost * unit or persist and min(tokens, 0) or tokens
  local isLast = mode ~= SMOOTH and after <= 0
  local kept = isLast and unit - left * drain or after

  local lag = time - now
  local isSmooth = isLast or mode == SMOOTH
  local wait = isSmooth and ceil((cost * unit - kept) / drain) or left
  local retry = allowed and 0 or cost > quota and huge or wait + lag
  local reset = isSmooth and ceil((full - kept) / drain) or kept < full and left or 0
  if reset > 0 then reset = reset + lag end
  local next = isSmooth and SMOOTH or BURSTY
  local remaining = max(0, floor(kept / unit))
  return allowed, time, retry, remaining, reset, 0, cost, persist, next, kept, isSmooth and time or start, start
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local drain, unit, full = params.drain, params.unit, params.full
  local mode, tokens, time, start = advance(params, cells, offset, now)
  local left = start + params.window - time

  local drained = mode == SMOOTH and max(0, now - chargedAt) * drain or 0
  local change = units < 0 and min(0, units * unit + drained) or units * unit
  local after = min(tokens - change, full)
  local isLast = mode ~= SMOOTH and after <= 0
  local isSmooth = isLast or mode == SMOOTH
  local persist = units > 0 or (mode ~= FRESH and chargedAt >= start)
  local next = after == full and FRESH or isSmooth and SMOOTH or BURSTY
  local kept = max(isLast and after + unit - left * drain or after, -LARGEST)
  return persist, next, kept, isSmooth and time or start, start
end

local function convert(params, from, cells, offset, now)
  local mode, tokens = advance(from, cells, offset, rescale(now, params, from))
  if mode == FRESH then return FRESH, 0, 0, 0, 0 end
  local used = convertDebt(from.full - tokens, from.unit, params.unit)

  local isSame = from.window / from.perMs == params.window / params.perMs
  local began = -rescale(-cells[offset + 3], from, params)
  local time = max(now, began)
  local start = mode == BURSTY and isSame and began or time
  local isLast = mode == BURSTY and used >= params.full
  local most = isLast and params.full - params.unit + (start + params.window - time) * params.drain
    or 2 * params.full - params.unit
  local cut = unitsAbove(used, most, params.unit)
  local kept = params.full - (isLast and most or used - cut * params.unit)
  return isLast and SMOOTH or mode, kept, isLast and time or start, start, isSame and cut or 0
end

return { step = step, adjust = adjust, convert = convert }
