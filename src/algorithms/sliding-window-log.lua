-- The functions of `sliding-window-log.ts` in Lua, for any grain.

local function advance(params, cells, offset, now, entries)
  local grain, life, sum = params.grain, params.life, cells[offset + 1]
  local newest = sum > 0 and cells[offset + 2] or -huge
  local index = max(floor(now / grain), newest)
  return index, newest + life <= index and sum or entries.costUntil(index - life)
end

local function step(params, cells, offset, now, cost, entries)
  local quota, grain, life, all = params.quota, params.grain, params.life, cells[offset + 1]
  local index, over = advance(params, cells, offset, now, entries)
  local sum = all - over

  local allowed = cost == 0 or cost <= quota - sum
  local persist = not allowed and params.strict == 1
  local pushed = allowed and cost or persist and min(cost, quota) or 0
  local kept = allowed and sum + cost or persist and max(sum, quota) or sum
  local drop = over + sum + pushed - kept
  entries.edit(drop, 0, 0, index, pushed)

  local retry = 0
  if not allowed and cost > quota then
    retry = huge
  elseif not allowed then
    local freed = drop + kept + cost - quota
    retry = ((freed <= all and entries.timeOf(freed) or index) + life) * grain - now
  end
  local newest = (pushed > 0 or sum == 0) and index or cells[offset + 2]
  local reset = kept > 0 and (newest + life) * grain - now or 0
  return allowed, max(now, index * grain), retry, max(0, quota - kept), reset, 0, cost, persist, kept, newest
end

local function adjust(params, cells, offset, now, chargedAt, units, entries)
  local index, over = advance(params, cells, offset, now, entries)
  local sum, newest = cells[offset + 1] - over, cells[offset + 2]
  local charged = floor(chargedAt / params.grain)
  local cost = units < 0 and charged > index - params.life and entries.costAt(charged) or 0

  local change = units < 0 and -min(-units, cost) or min(units, LARGEST - sum)
  local kept = sum + change
  local isEmptied = change < 0 and cost + change == 0 and charged == newest
  if units > 0 then newest = index
  elseif isEmptied then newest = kept == 0 and 0 or entries.beforeNewest() end
  entries.edit(over, charged, max(0, -change), index, max(0, change))
  return change ~= 0, kept, newest
end

local function convert(params, from, cells, offset, now, entries)
  local newest = cells[offset + 2]
  local _, over = advance(from, cells, offset, rescale(now, params, from), entries)
  local sum = cells[offset + 1] - over

  local isSame = from.grain / from.perMs == params.grain / params.perMs
  local index = floor(max(now, -rescale(-newest * from.grain, from, params)) / params.grain)
  local kept = isSame and from.life == params.life and sum or min(sum, params.quota)
  entries.edit(over + (isSame and sum - kept or sum), 0, 0, index, isSame and 0 or kept)
  return kept, kept == 0 and 0 or isSame and newest or index
end

return { advance = advance, step = step, adjust = adjust, convert = convert }
