import { type CompiledLimit, ticksOf } from '../limits/compiled-limit.ts'

/** The tolerated difference of clocks. The time of a key does not move until a clock that is behind by less has caught up. */
export const TOLERANCE_MS = 1000

/**
 * Returns whether a clock that ran ahead wrote the state at `cells[offset]`: its newest time is ahead of `tick` by more than the
 * tolerance. Such a state is moved to the present with its debt. So no client waits until the clock has caught
 * up, and no usage is forgotten.
 */
export function isAhead(
  { newest, newestTicks, perMs }: CompiledLimit,
  cells: Float64Array,
  offset: number,
  tick: number,
): boolean {
  return cells[offset + newest]! * newestTicks > tick + TOLERANCE_MS * perMs
}

/** Moves the times of such a state back, so that the newest one is `tick`. */
export function moveToPresent(compiled: CompiledLimit, cells: Float64Array, tick: number): void {
  const { algorithm, parameters, newest, newestTicks } = compiled
  const ahead = cells[newest]! * newestTicks - tick
  algorithm.cells.forEach((cell, i) => {
    if (cell.ticks === undefined) return
    const unit = ticksOf(cell, parameters)
    cells[i] = Math.floor((cells[i]! * unit - ahead) / unit)
  })
}

/**
 * Returns the microsecond until which a lock-out lasts. One that a clock ahead has begun lasts from `now` on for the time that it was to
 * last. Its length is the `block` of the limit that began it, whichever version of the limit asks.
 */
export function lockEnd(since: number, until: number, now: number): number {
  return since > now + TOLERANCE_MS * 1000 ? now + (until - since) : until
}

/**
 * Returns the same functions in Lua. `kind.times` has the places of the cells that are points in time, and the ticks of each. The entries of a
 * state that is moved become one.
 */
export function luaClockFault(): string {
  return `
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
}
