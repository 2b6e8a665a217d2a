import { TOLERANCE_MS } from '../../../engine/row.ts'

/**
 * The counterparts of `isAhead`, `lockEnd` and `moveToPresent` of `engine/row.ts`. `kind.times` has the places of the cells that are points in
 * time, and the ticks of each. The entries of a state that is moved become one.
 */
export const luaClockFault: string = `
local TOLERANCE_MS = ${TOLERANCE_MS}

local function unitOf(params, ticks)
  return ticks == 1 and 1 or params[ticks]
end

local function isAhead(kind, params, cells, offset, tick)
  local newest = kind.newest
  return newest and cells[offset + newest] * unitOf(params, kind.times[newest]) > tick + TOLERANCE_MS * params.perMs
end

local function lockEnd(since, ending)
  return since > now + TOLERANCE_MS * 1000 and now + (ending - since) or ending
end

local function moveToPresent(attempt, kind, params, cells, offset, tick)
  local newest = kind.newest
  local ahead = cells[offset + newest] * unitOf(params, kind.times[newest]) - tick
  for k, ticks in pairs(kind.times) do
    local unit = unitOf(params, ticks)
    cells[offset + k] = floor((cells[offset + k] * unit - ahead) / unit)
  end
  attempt.isCarriedOver = true
  if not attempt.own then return end
  attempt.own.edit(huge, 0, 0, cells[offset + newest], cells[offset + 1])
  applyEdit(attempt.own)
  goOn(attempt.own)
end
`
