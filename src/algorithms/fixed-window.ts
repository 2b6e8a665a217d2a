import { calendarUnit, type CalendarWindows, calendarWindows, checkedTimeZone } from '../util/calendar.ts'
import { milliseconds, oneOf, refuse } from '../util/validate.ts'
import { type Algorithm, type LimitParameters, type Outcome, type ParameterInput, restart } from './algorithm.ts'
import { LARGEST, rescale } from './arithmetic.ts'

/** The parameters of windows on a calendar: see `CalendarWindows`. They are few and small, because each stored state contains them. */
type CalendarName = keyof CalendarWindows

const found = { start: 0.5, end: 0.5 }

const NO_CALENDAR: CalendarWindows = { first: 0, before: 0, current: 0, after: 0 }

/**
 * Checks the options and derives the windows near a time. Without a time there are no calendar windows, and all windows last for `window`.
 * Throws `INVALID_OPTION`.
 */
function deriveCalendar({ strict, own, time }: ParameterInput): CalendarWindows {
  const zone = checkedTimeZone(own['timeZone'] ?? 'UTC')
  if (strict) refuse('strict', "no strict with anchor: 'calendar', as a window on the calendar ends anyway", true)
  if (own['offset'] !== undefined) refuse('offset', "none, unless anchor is 'clock'", own['offset'])
  return time === undefined ? NO_CALENDAR : calendarWindows(zone, calendarUnit(own['window']), time)
}

function validity({ first, before, current }: CalendarWindows): readonly [from: number, until: number] {
  return [(first + before) * 1000, (first + before + current) * 1000]
}

/** Finds the window that contains a time. Before and after the three windows of the parameters, windows last for `window`. */
function findCalendarWindow(params: LimitParameters<CalendarName | 'window'>, time: number): typeof found {
  const { window, first, before, current, after, perMs } = params
  const second = perMs * 1000
  let start = first * second
  let end = start + before * second
  if (time >= end) [start, end] = [end, end + current * second]
  if (time >= end) [start, end] = [end, end + after * second]
  const beyond = time < start ? start : end
  if (time < start || time >= end) {
    start = beyond + Math.floor((time - beyond) / window) * window
    end = start + window
  }
  found.start = start
  found.end = end
  return found
}

/**
 * `fixedWindow`: `quota` in each window, counted from zero.
 *
 * State `(start, used)`: the time when the window opened, and the used units. If nothing is used, there is no window. A window opens with the
 * first admitted request and lasts for `window`. On the clock, it opens at a multiple of `window` since the epoch, plus `offset`. On the
 * calendar, the parameters contain three windows, and the first one starts at the epoch second `first`. Before and after them, windows last
 * for `window`. With `strict`, each denied request opens a new window.
 */
type Name = 'quota' | 'window' | 'clock' | 'offset' | CalendarName

const FIRST = 0
const CLOCK = 1
const CALENDAR = 2

function deriveParameters(input: ParameterInput): Readonly<Record<Name, number>> {
  const clock = oneOf('anchor', input.own['anchor'] ?? 'first', ['first', 'clock', 'calendar']) === 'clock'
  if (clock && input.strict)
    refuse('strict', "no strict with anchor: 'clock', as a window on the clock ends anyway", true)
  if (input.own['timeZone'] !== undefined)
    refuse('timeZone', "none, unless anchor is 'calendar'", input.own['timeZone'])
  const given = input.own['offset'] ?? 0
  if (input.own['offset'] !== undefined && !clock) refuse('offset', "none, unless anchor is 'clock'", given)
  const offset = given === 0 ? 0 : milliseconds('offset', given) * input.perMs
  if (offset >= input.window) refuse('offset', `less than the window, ${input.window / input.perMs} ms`, given)
  return { quota: input.quota, window: input.window, clock: clock ? CLOCK : FIRST, offset, ...NO_CALENDAR }
}

/** Returns the window that contains a time. Without clock and calendar, the window opens at that time. */
function findWindow(params: LimitParameters<Name>, time: number): typeof found {
  const { clock, window, offset } = params
  if (clock === CALENDAR) return findCalendarWindow(params, time)
  found.start = clock === CLOCK ? Math.floor((time - offset) / window) * window + offset : time
  found.end = found.start + window
  return found
}

const advanced = { time: 0.5, start: 0.5, end: 0.5, used: 0.5 }

/** Returns the time of the step, the start and the end of the window, and the used units. The time is never before the window. */
function advance(params: LimitParameters<Name>, cells: Float64Array, offset: number, now: number): typeof advanced {
  const { start, end } = findWindow(params, cells[offset]!)
  const used = cells[offset + 1]!
  const isOpen = used > 0 && now < end
  const own = isOpen ? found : findWindow(params, now)
  advanced.time = isOpen ? Math.max(now, start) : now
  advanced.start = own.start
  advanced.end = own.end
  advanced.used = isOpen ? used : 0
  return advanced
}

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out) => {
  const { quota } = params
  const { time, start, end, used } = advance(params, cells, offset, now)

  const allowed = cost === 0 || cost <= quota - used
  const persist = !allowed && params.strict === 1
  const kept = allowed ? used + cost : persist ? Math.max(used, quota) : used
  const opened = persist ? time : start
  const left = (persist ? time + params.window : end) - now

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

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out) => {
  const { start, used } = advance(params, cells, offset, now)
  out.persist = units > 0 || (used > 0 && chargedAt >= start)
  out.next[0] = start
  out.next[1] = Math.min(Math.max(0, used + units), LARGEST)
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out) => {
  const { used } = advance(from, cells, offset, rescale(now, params, from))
  // The start is rounded up: a converted window does not end earlier than before.
  const start = -rescale(-cells[offset]!, from, params)
  const isSame =
    from.window / from.perMs === params.window / params.perMs &&
    from.clock === params.clock &&
    (params.clock === CALENDAR || from.offset / from.perMs === params.offset / params.perMs)
  const keepsStart = isSame && params.clock !== CALENDAR
  out.next[0] = used === 0 ? 0 : keepsStart ? start : findWindow(params, Math.max(now, start)).start
  // A count above a smaller quota is kept. It is still there when the quota becomes larger again.
  out.next[1] = isSame ? used : Math.min(used, params.quota)
}

const common = {
  options: ['anchor', 'offset', 'timeZone'],
  cells: [{ name: 'start', ticks: 1, newest: true }, { name: 'used' }],
  initialState: [0, 0],
  maxValue: (params: LimitParameters<Name>): number => params.quota,
  step,
  adjust,
  convert,
  leaseUntil: (_: LimitParameters<Name>, at: number, reset: number): number => at + reset,
  toShared: (params: LimitParameters<Name>, out: Outcome): void =>
    params.clock === FIRST ? restart(out, 0) : undefined,
} as const

/** A fixed window on the calendar of a time zone. Its parameters are valid during the current window. */
const calendarWindow: Algorithm<Name> = {
  ...common,
  name: 'calendar',
  parameters: ['quota', 'window', 'clock', 'first', 'before', 'current', 'after'],
  get compatibleWith() {
    return [fixedWindow]
  },
  deriveParameters: (input) => ({
    quota: input.quota,
    window: input.window,
    clock: CALENDAR,
    offset: 0,
    ...deriveCalendar(input),
  }),
  validity,
}

/**
 * Allows `quota` in each window. Simple and cheap. Up to twice the quota can pass around the edge between two windows.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example fixedWindow({ quota: 1000, window: '1d', anchor: 'clock' })
 * @example fixedWindow({ quota: 10_000, window: '1mo', anchor: 'calendar', timeZone: 'Europe/Berlin' })
 */
export const fixedWindow: Algorithm<Name> = {
  ...common,
  name: 'fixedWindow',
  parameters: ['quota', 'window', 'clock', 'offset'],
  compatibleWith: [calendarWindow],
  optionFields: {
    anchor: {
      kind: 'choice',
      choices: ['first', 'clock', 'calendar'],
      fallback: 'first',
      meaning:
        'Where windows start: with the first request of a key, at multiples of `window` since 1970 in UTC, or with each day, week (on ' +
        'Monday), month or year of a time zone, whatever its length: a day has 23 or 25 hours where the clocks change.',
    },
    offset: {
      kind: 'duration',
      least: 0,
      fallback: '0',
      meaning: "With `anchor: 'clock'`: how much later than those multiples a window starts.",
    },
    timeZone: {
      kind: 'text',
      pattern: /^[\w+/:-]{1,64}$/,
      fallback: 'UTC',
      meaning: "With `anchor: 'calendar'`: an IANA time zone, such as `'Europe/Berlin'`.",
    },
  },
  variant: ({ anchor }) => (anchor === 'calendar' ? calendarWindow : undefined),
  windowUnit: ({ anchor, window }) => (anchor === 'calendar' ? calendarUnit(window) : undefined),
  deriveParameters,
}
