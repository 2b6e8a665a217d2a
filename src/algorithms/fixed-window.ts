import { type Algorithm, type Outcome, type ParameterInput, type Parameters, restart } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { milliseconds, oneOf, refuse } from '../util/validate.ts'

/**
 * `fixedWindow`: `quota` in each window, counted from zero.
 *
 * State `(start, used)`: when the window opened and what it holds; nothing used is no window. It lasts for
 * `[start, start + window)` and opens with the first admitted request or, on the clock, at a multiple of `window` since the
 * epoch plus `offset`.
 */
type Name = 'quota' | 'window' | 'clock' | 'offset'

function deriveParameters(input: ParameterInput): Readonly<Record<Name, number>> {
  const clock = oneOf('anchor', input.own['anchor'] ?? 'first', ['first', 'clock']) === 'clock'
  const given = input.own['offset'] ?? 0
  if (input.own['offset'] !== undefined && !clock) refuse('offset', "none, unless anchor is 'clock'", given)
  const offset = given === 0 ? 0 : milliseconds('offset', given) * input.perMs
  if (offset >= input.window) refuse('offset', `less than the window, ${input.window / input.perMs} ms`, given)
  return { quota: input.quota, window: input.window, clock: clock ? 1 : 0, offset }
}

/** When a window that holds `t` opens. */
function opening(params: Parameters<Name>, t: number): number {
  return params.clock === 1 ? Math.floor((t - params.offset) / params.window) * params.window + params.offset : t
}

function step(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  n: number,
  out: Outcome,
): void {
  const open = cells[offset + 1]! > 0 && now < cells[offset]! + params.window
  const t = open ? Math.max(now, cells[offset]!) : now
  const start = open ? cells[offset]! : opening(params, now)
  const used = open ? cells[offset + 1]! : 0

  const allowed = n === 0 || n <= params.quota - used
  const persist = !allowed && params.strict === 1
  const kept = allowed ? used + n : persist ? Math.max(used, params.quota) : used
  const left = start + params.window - t

  out.allowed = allowed
  out.at = t
  out.retry = allowed ? 0 : n > params.quota ? Infinity : left + (t - now)
  out.remaining = Math.max(0, params.quota - kept)
  out.reset = kept > 0 ? left + (t - now) : 0
  out.delay = 0
  out.charged = n
  out.persist = persist
  out.next[0] = start
  out.next[1] = kept
}

function adjust(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  then: number,
  units: number,
  out: Outcome,
): void {
  const open = cells[offset + 1]! > 0 && now < cells[offset]! + params.window
  const start = open ? cells[offset]! : opening(params, now)
  const used = open ? cells[offset + 1]! : 0
  out.persist = units > 0 || (used > 0 && then >= start)
  out.next[0] = start
  out.next[1] = Math.min(Math.max(0, used + units), LARGEST)
}

function convert(
  params: Parameters<Name>,
  from: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  out: Outcome,
): void {
  const open = cells[offset + 1]! > 0 && rescale(now, params, from) < cells[offset]! + from.window
  // Rounded up: a window that is carried over ends no sooner than it would have.
  const start = -rescale(-cells[offset]!, from, params)
  const same =
    from.window / from.perMs === params.window / params.perMs &&
    from.clock === params.clock &&
    from.offset / from.perMs === params.offset / params.perMs
  out.next[0] = open ? (same ? start : opening(params, Math.max(now, start))) : 0
  out.next[1] = open ? Math.min(cells[offset + 1]!, params.quota) : 0
}

const lua = `
local function opening(params, time)
  return params.clock == 1 and floor((time - params.offset) / params.window) * params.window + params.offset or time
end

local function advance(params, cells, offset, now)
  local start, used = cells[offset + 1], cells[offset + 2]
  if used > 0 and now < start + params.window then return max(now, start), start, used end
  return now, opening(params, now), 0
end

local function step(params, cells, offset, now, cost)
  local time, start, used = advance(params, cells, offset, now)
  local quota = params.quota

  local allowed = cost == 0 or cost <= quota - used
  local persist = not allowed and params.strict == 1
  local kept = allowed and used + cost or persist and max(used, quota) or used
  local left = start + params.window - now

  local retry = allowed and 0 or cost > quota and huge or left
  return allowed, time, retry, max(0, quota - kept), kept > 0 and left or 0, 0, cost, persist, start, kept
end

local function adjust(params, cells, offset, now, chargedAt, units)
  local _, start, used = advance(params, cells, offset, now)
  return units > 0 or (used > 0 and chargedAt >= start), start, min(max(0, used + units), LARGEST)
end

local function convert(params, from, cells, offset, now)
  local _, _, used = advance(from, cells, offset, rescale(now, params, from))
  if used == 0 then return 0, 0 end
  local start = -rescale(-cells[offset + 1], from, params)
  local isSame = from.window / from.perMs == params.window / params.perMs
    and from.clock == params.clock
    and from.offset / from.perMs == params.offset / params.perMs
  return isSame and start or opening(params, max(now, start)), min(used, params.quota)
end

return { step = step, adjust = adjust, convert = convert }
`

/** Fixed window: `quota` per `window`, from the first request or on the clock. */
export const fixedWindow: Algorithm<Name> = {
  name: 'fixedWindow',
  options: ['anchor', 'offset'],
  parameters: ['quota', 'window', 'clock', 'offset'],
  cells: [{ name: 'start', ticks: 1 }, { name: 'used' }],
  initialState: [0, 0],
  deriveParameters,
  maxValue: (params) => params.quota,
  step,
  adjust,
  convert,
  toShared: (params, out) => (params.clock === 1 ? undefined : restart(out, 0)),
  lua,
}
