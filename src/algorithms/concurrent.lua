-- The functions of `concurrent.ts` in Lua. `log` has the functions of `sliding-window-log.lua`.

local function step(params, cells, offset, now, cost, entries)
  local allowed, at, retry, remaining, reset, delay, charged, persist, kept, newest =
    log.step(params, cells, offset, now, cost, entries)
  if retry > 0 and retry < huge then retry = params.hint end
  return allowed, at, retry, remaining, reset, delay, charged, persist, kept, newest
end

local function convert(params, from, cells, offset, now, entries)
  local newest = cells[offset + 2]
  local _, over = log.advance(from, cells, offset, rescale(now, params, from), entries)
  local kept = cells[offset + 1] - over
  local isSame = from.perMs == params.perMs
  local time = max(now, -rescale(-newest, from, params))
  entries.edit(isSame and over or over + kept, 0, 0, time, isSame and 0 or kept)
  return kept, kept == 0 and 0 or isSame and newest or time
end

local function renew(params, cells, offset, now, chargedAt, units, takes, entries)
  local index, over = log.advance(params, cells, offset, now, entries)
  local held = chargedAt > index - params.life and entries.costAt(chargedAt) or 0
  local moved = min(units, held)
  local others = cells[offset + 1] - over - moved
  local kept = takes and others + units <= params.quota and units or moved
  entries.edit(over, chargedAt, moved, index, kept)
  return kept > 0, others + kept, index, index, kept
end

return { step = step, adjust = log.adjust, convert = convert, renew = renew }
