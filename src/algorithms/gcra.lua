-- The functions of `gcra.ts` in Lua.

local function advance(params, cells, offset, now)
  local debt, last = cells[offset + 1], cells[offset + 2]
  local drained = now > last and (now - last) * params.drain or 0
  if drained >= debt then return now, 0 end
  return now > last and now or last, debt - drained
end

local function step(params, cells, offset, now, cost)
  local drain, unit, full = params.drain, params.unit, params.full
  local time, debt = advance(params, cells, offset, now)

  local after = debt + cost * unit
  local allowed = cost == 0 or after <= full
  local persist = not allowed and params.strict == 1
  local kept = allowed and after or persist and max(debt, full) or debt

  local lag = time - now
  local retry = allowed and 0 or cost > params.capacity and huge or ceil((kept + (after - debt) - full) / drain) + lag
  local reset = kept > 0 and ceil(kept / drain) + lag or 0
  local delay = params.queue == 1 and allowed and cost > 0 and debt > 0 and ceil(debt / drain) + lag or 0
  local remaining = kept < full and floor((full - kept) / unit) or 0
  return allowed, time, retry, remaining, reset, delay, cost, persist, kept, time
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local time, debt = advance(params, cells, offset, now)
  local drained = max(0, now - chargedAt) * params.drain
  local change = units < 0 and min(0, units * params.unit + drained) or units * params.unit
  return units > 0 or debt > 0, min(max(0, debt + change), LARGEST), time
end

local function convert(params, from, cells, offset, now)
  local last = cells[offset + 2]
  local _, debt = advance(from, cells, offset, rescale(now, params, from))
  local owed = convertDebt(debt, from.unit, params.unit)
  local cut = unitsAbove(owed, params.full, params.unit)
  return owed - cut * params.unit, debt == 0 and -huge or max(now, rescale(last, from, params)), cut
end

return { step = step, adjust = adjust, convert = convert }
