-- The functions of `arithmetic.ts` in Lua, and short names that every Lua text can use.

local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local LARGEST = 4503599627370496

local function rescale(ticks, from, to)
  if to.perMs >= from.perMs then return ticks * (to.perMs / from.perMs) end
  return floor(ticks / (from.perMs / to.perMs))
end
