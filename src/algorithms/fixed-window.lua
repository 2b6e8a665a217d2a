-- The functions of `fixed-window.ts` in Lua.

local function findCalendarWindow(params, time)
  local window, second = params.window, params.perMs * 1000
  local start = params.first * second
  local ending = start + params.before * second
  if time >= ending then start, ending = ending, ending + params.current * second end
  if time >= ending then start, ending = ending, ending + params.after * second end
  if time >= start and time < ending then return start, ending end
  local beyond = time < start and start or ending
  start = beyond + floor((time - beyond) / window) * window
  return start, start + window
end

local function findWindow(params, time)
  local clock, window = params.clock, params.window
  if clock == 2 then return findCalendarWindow(params, time) end
  local start = clock == 1 and floor((time - params.offset) / window) * window + params.offset or time
  return start, start + window
end

local function advance(params, cells, offset, now)
  local used = cells[offset + 2]
  local start, ending = findWindow(params, cells[offset + 1])
  if used > 0 and now < ending then return max(now, start), start, ending, used end
  start, ending = findWindow(params, now)
  return now, start, ending, 0
end

local function step(params, cells, offset, now, cost)
  local time, start, ending, used = advance(params, cells, offset, now)
  local quota = params.quota

  local allowed = cost == 0 or cost <= quota - used
  local persist = not allowed and params.strict == 1
  local kept = allowed and used + cost or persist and max(used, quota) or used
  local opened = persist and time or start
  local left = (persist and time + params.window or ending) - now

  local retry = allowed and 0 or cost > quota and huge or left
  return allowed, time, retry, max(0, quota - kept), kept > 0 and left or 0, 0, cost, persist, opened, kept
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local _, start, _, used = advance(params, cells, offset, now)
  return units > 0 or (used > 0 and chargedAt >= start), start, min(max(0, used + units), LARGEST)
end

local function convert(params, from, cells, offset, now)
  local _, _, _, used = advance(from, cells, offset, rescale(now, params, from))
  if used == 0 then return 0, 0 end
  local start = -rescale(-cells[offset + 1], from, params)
  local isSame = from.window / from.perMs == params.window / params.perMs
    and from.clock == params.clock
    and (params.clock == 2 or from.offset / from.perMs == params.offset / params.perMs)
  local opened = isSame and params.clock ~= 2 and start or findWindow(params, max(now, start))
  return opened, isSame and used or min(used, params.quota)
end

return { step = step, adjust = adjust, convert = convert }
