import { type Algorithm, type Outcome, type ParameterInput, type Parameters, restart } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'
import { milliseconds, oneOf, refuse } from '../util/validate.ts'

/**
 * `fixedWindow`: `quota` in each window, counted from zero.
 *
 * State `(start, used)`: when the window opened and what is used. If nothing is used, there is no window. It lasts for
 * `[start, start + window)`. It opens with the first admitted request or, on the clock, at a multiple of `window` since the
 * epoch plus `offset`. With `strict`, each denied request opens a new window.
 */
type Name = 'quota' | 'window' | 'clock' | 'offset'

function deriveParameters(input: ParameterInput): Readonly<Record<Name, number>> {
  const clock = oneOf('anchor', input.own['anchor'] ?? 'first', ['first', 'clock']) === 'clock'
  if (clock && input.strict)
    refuse('strict', "no strict with anchor: 'clock', as a window on the clock ends anyway", true)
  const given = input.own['offset'] ?? 0
  if (input.own['offset'] !== undefined && !clock) refuse('offset', "none, unless anchor is 'clock'", given)
  const offset = given === 0 ? 0 : milliseconds('offset', given) * input.perMs
  if (offset >= input.window) refuse('offset', `less than the window, ${input.window / input.perMs} ms`, given)
  return { quota: input.quota, window: input.window, clock: clock ? 1 : 0, offset }
}

/** Returns the start of the window that contains a time. */
function opening(params: Parameters<Name>, time: number): number {
  const { clock, window, offset } = params
  return clock === 1 ? Math.floor((time - offset) / window) * window + offset : time
}

/** What `advance` returns. One object serves every call, so that a step allocates nothing. */
const advanced = { time: 0.5, start: 0.5, used: 0.5 }

/** Returns the time that counts at `now`, which is never before the window, the start of the window, and what is used. */
function advance(params: Parameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const start = opening(params, cells[offset]!)
  const used = cells[offset + 1]!
  const isOpen = used > 0 && now < start + params.window
  advanced.time = isOpen ? Math.max(now, start) : now
  advanced.start = isOpen ? start : opening(params, now)
  advanced.used = isOpen ? used : 0
  return advanced
}

function step(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  cost: number,
  out: Outcome,
): void {
  const { quota } = params
  const { time, start, used } = advance(params, cells, offset, now)

  const allowed = cost === 0 || cost <= quota - used
  const persist = !allowed && params.strict === 1
  const kept = allowed ? used + cost : persist ? Math.max(used, quota) : used
  const opened = persist && params.clock === 0 ? time : start
  const left = opened + params.window - now

  out.allowed = allowed
  out.at = time
  out.retry = allowed ? 0 : cost > quota ? Infinity : left
  out.remaining = Math.max(0, quota - kept)
  out.reset = kept > 0 ? left : 0
  out.delay = 0
  out.charged = cost
  out.persist = persist
  out.next[0] = opened
  out.next[1] = kept
}

function adjust(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  chargedAt: number,
  units: number,
  out: Outcome,
): void {
  const { start, used } = advance(params, cells, offset, now)
  out.persist = units > 0 || (used > 0 && chargedAt >= start)
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
  const { used } = advance(from, cells, offset, rescale(now, params, from))
  // Rounded up: a converted window ends no sooner than before.
  const start = -rescale(-cells[offset]!, from, params)
  const isSame =
    from.window / from.perMs === params.window / params.perMs &&
    from.clock === params.clock &&
    from.offset / from.perMs === params.offset / params.perMs
  out.next[0] = used === 0 ? 0 : isSame ? start : opening(params, Math.max(now, start))
  out.next[1] = Math.min(used, params.quota)
}

/** The same functions in Lua. */
export const fixedWindowLua = `
local function opening(params, time)
  return params.clock == 1 and floor((time - params.offset) / params.window) * params.window + params.offset or time
end

local function advance(params, cells, offset, now)
  local start, used = opening(params, cells[offset + 1]), cells[offset + 2]
  if used > 0 and now < start + params.window then return max(now, start), start, used end
  return now, opening(params, now), 0
end

local function step(params, cells, offset, now, cost)
  local time, start, used = advance(params, cells, offset, now)
  local quota = params.quota

  local allowed = cost == 0 or cost <= quota - used
  local persist = not allowed and params.strict == 1
  local kept = allowed and used + cost or persist and max(used, quota) or used
  local opened = persist and params.clock == 0 and time or start
  local left = opened + params.window - now

  local retry = allowed and 0 or cost > quota and huge or left
  return allowed, time, retry, max(0, quota - kept), kept > 0 and left or 0, 0, cost, persist, opened, kept
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
  cells: [{ name: 'start', ticks: 1, newest: true }, { name: 'used' }],
  initialState: [0, 0],
  deriveParameters,
  maxValue: (params) => params.quota,
  step,
  adjust,
  convert,
  toShared: (params, out) => (params.clock === 1 ? undefined : restart(out, 0)),
}
