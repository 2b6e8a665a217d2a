-- The functions of `arithmetic.ts` in Lua, and short names for all Lua texts.

local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local LARGEST = 4503599627370496

local function rescale(ticks, from, to)
  if to.perMs >= from.perMs then return ticks * (to.perMs / from.perMs) end
  return floor(ticks / (from.perMs / to.perMs))
end

local function convertDebt(debt, from, to)
  local units = floor(debt / from)
  return min(units * to + ceil((debt - units * from) * (to / from)), 2 * LARGEST)
end

local function unitsAbove(debt, most, unit)
  return debt > most and ceil((debt - most) / unit) or 0
end
