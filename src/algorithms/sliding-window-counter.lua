-- The functions of `sliding-window-counter.ts` in Lua.

local function advance(params, cells, offset, now)
  local window, number, current, previous = params.window, cells[offset + 1], cells[offset + 2], cells[offset + 3]
  local time = (current > 0 or previous > 0) and max(now, number * window) or now
  local latest = floor(time / window)
  if latest == number then return time, latest, current, previous end
  return time, latest, 0, latest == number + 1 and current or 0
end

local function mostCounted(params)
  return params.strict == 1 and 2 * params.quota or params.quota
end

local function step(params, cells, offset, now, cost)
  local quota, window = params.quota, params.window
  local time, number, current, previous = advance(params, cells, offset, now)
  local elapsed = time - number * window
  local weighted = floor((previous * (window - elapsed)) / window)

  local allowed = cost == 0 or cost <= quota - current - weighted
  local persist = not allowed and params.strict == 1
  local counted = min(current + cost, mostCounted(params) - weighted)
  local kept = allowed and current + cost or persist and max(current, counted) or current

  local lag = time - now
  local retry = 0
  if not allowed then
    local room = quota - kept - cost
    local later = max(0, window - floor(((quota - cost + 1) * window - 1) / kept))
    local wait = room < 0 and window - elapsed + later or window - floor(((room + 1) * window - 1) / previous) - elapsed
    retry = cost > quota and huge or wait
    if retry > 0 then retry = retry + lag end
  end
  local reset = kept > 0 and 2 * window - elapsed or previous > 0 and window - elapsed or 0
  if reset > 0 then reset = reset + lag end
  local remaining = max(0, quota - kept - weighted)
  return allowed, time, retry, remaining, reset, 0, cost, persist, number, kept, previous
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local window = params.window
  local _, number, current, previous = advance(params, cells, offset, now)
  local charged = floor(chargedAt / window)
  local isOlder = units < 0 and charged == number - 1
  local held = isOlder and previous or charged == number and current or 0
  local kept = isOlder and current or min(max(0, current + units), floor(LARGEST / window))
  return units > 0 or held > 0, number, kept, isOlder and max(0, previous + units) or previous
end

local function convert(params, from, cells, offset, now)
  local window = params.window
  local time, number, current, previous = advance(from, cells, offset, rescale(now, params, from))
  local left = from.window - (time - number * from.window)
  local isSame = from.window / from.perMs == window / params.perMs

  local most = mostCounted(params)
  local used = min(isSame and current or current + ceil((previous * left) / from.window), most)
  local start = max(now, -rescale(-number * from.window, from, params))
  local next = floor(start / window)
  local fits = floor(((most - used + 1) * window - 1) / (window - (start - next * window)))
  local older = isSame and min(previous, fits) or 0
  local cut = isSame and current - used + ceil(((previous - older) * left) / from.window) or 0
  return (current > 0 or previous > 0) and next or 0, used, older, cut
end

return { step = step, adjust = adjust, convert = convert }
