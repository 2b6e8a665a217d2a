import { type CalendarWindows, calendarUnit, calendarWindows, checkedTimeZone } from '../util/calendar.ts'
import { refuse } from '../util/validate.ts'
import type { ParameterInput, Parameters } from './algorithm.ts'

/** The parameters of windows on a calendar: see `CalendarWindows`. They are few and small, since they are part of each stored state. */
export type CalendarName = keyof CalendarWindows

/** When a window starts and when it ends, in ticks. */
export interface WindowSpan {
  start: number
  end: number
}

export const NO_CALENDAR: CalendarWindows = { first: 0, before: 0, current: 0, after: 0 }

/**
 * Checks the options and derives the windows near a time. Until a time is known there are none, and the windows are those of a clock.
 * Throws `INVALID_OPTION`.
 */
export function deriveCalendar({ strict, own, time }: ParameterInput): CalendarWindows {
  const zone = checkedTimeZone(own['timeZone'] ?? 'UTC')
  if (strict) refuse('strict', "no strict with anchor: 'calendar', as a window on the calendar ends anyway", true)
  if (own['offset'] !== undefined) refuse('offset', "none, unless anchor is 'clock'", own['offset'])
  return time === undefined ? NO_CALENDAR : calendarWindows(zone, calendarUnit(own['window']), time)
}

/** The parameters are valid during the current window. */
export function validity({ first, before, current }: CalendarWindows): readonly [from: number, until: number] {
  return [(first + before) * 1000, (first + before + current) * 1000]
}

/** Writes the window that contains a time. Before and after those of the parameters, windows last for `window`. */
export function findCalendarWindow(
  params: Parameters<CalendarName | 'window'>,
  time: number,
  found: WindowSpan,
): WindowSpan {
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

/** The twin of `findCalendarWindow`. */
export const calendarLua = `
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
`
