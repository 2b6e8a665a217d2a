import type { Algorithm, LimitParameters, Outcome, ParameterInput } from '../../src/algorithms/algorithm.ts'
import { rescale } from '../../src/algorithms/arithmetic.ts'
import { refuse, wholeNumber } from '../../src/util/validate.ts'

// An algorithm that the package does not have, in one file. Each unit takes `pace` ticks to return, one unit after another.
// `reserve` units can be taken in addition to the quota. State: the tick at which all units are back.
type Name = 'pace' | 'units'

function deriveParameters({ quota, window, own }: ParameterInput): Record<Name, number> {
  if (window % quota !== 0) refuse('window', `a multiple of ${quota} ticks`, window)
  return { pace: window / quota, units: quota + wholeNumber('reserve', own['reserve'] ?? 0, 0) }
}

function step(
  params: LimitParameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  cost: number,
  out: Outcome,
): void {
  const full = params.units * params.pace
  const debt = Math.max(0, cells[offset]! - now)
  const owed = debt + cost * params.pace
  const allowed = cost === 0 || owed <= full
  const persist = !allowed && params.strict === 1
  const kept = allowed ? owed : persist ? Math.max(debt, full) : debt

  out.allowed = allowed
  out.at = now
  out.retry = allowed ? 0 : cost > params.units ? Infinity : kept + cost * params.pace - full
  out.remaining = Math.max(0, Math.floor((full - kept) / params.pace))
  out.reset = kept
  out.delay = 0
  out.charged = cost
  out.persist = persist
  out.next[0] = kept === 0 ? 0 : now + kept
}

function adjust(
  params: LimitParameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  chargedAt: number,
  units: number,
  out: Outcome,
): void {
  const debt = Math.max(0, cells[offset]! - now)
  const drained = Math.max(0, now - chargedAt)
  const change = units < 0 ? Math.min(0, units * params.pace + drained) : units * params.pace
  const kept = Math.max(0, debt + change)
  out.persist = units > 0 || debt > 0
  out.next[0] = kept === 0 ? 0 : now + kept
}

function convert(
  params: LimitParameters<Name>,
  from: LimitParameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const debt = Math.max(0, cells[offset]! - rescale(now, params, from))
  const isSame = from.pace / from.perMs === params.pace / params.perMs && from.units === params.units
  const used = Math.min(Math.ceil(debt / from.pace), from.units, params.units)
  out.next[0] = debt === 0 ? 0 : now + (isSame ? -rescale(-debt, from, params) : used * params.pace)
}

const lua = `
local function step(params, cells, offset, now, cost)
  local pace, units = params.pace, params.units
  local debt = max(0, cells[offset + 1] - now)
  local owed = debt + cost * pace
  local allowed = cost == 0 or owed <= units * pace
  local persist = not allowed and params.strict == 1
  local kept = allowed and owed or persist and max(debt, units * pace) or debt

  local retry = allowed and 0 or cost > units and huge or kept + cost * pace - units * pace
  local remaining = max(0, floor((units * pace - kept) / pace))
  return allowed, now, retry, remaining, kept, 0, cost, persist, kept == 0 and 0 or now + kept
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local debt = max(0, cells[offset + 1] - now)
  local drained = max(0, now - chargedAt)
  local change = units < 0 and min(0, units * params.pace + drained) or units * params.pace
  local kept = max(0, debt + change)
  return units > 0 or debt > 0, kept == 0 and 0 or now + kept
end

local function convert(params, from, cells, offset, now)
  local debt = max(0, cells[offset + 1] - rescale(now, params, from))
  local isSame = from.pace / from.perMs == params.pace / params.perMs and from.units == params.units
  local used = min(ceil(debt / from.pace), from.units, params.units)
  return debt == 0 and 0 or now + (isSame and -rescale(-debt, from, params) or used * params.pace)
end

return { step = step, adjust = adjust, convert = convert }
`

export const paced: Algorithm<Name> = {
  name: 'paced',
  options: ['reserve'],
  parameters: ['pace', 'units'],
  cells: [{ name: 'all back', ticks: 1 }],
  initialState: [0],
  deriveParameters,
  // Debts have no maximum, so this allows a thousand times the capacity.
  maxValue: (params) => params.units * params.pace * 1000,
  capacity: (params) => params.units,
  resetLag: (params) => (params.units - 1) * params.pace,
  step,
  adjust,
  convert,
  lua,
}
