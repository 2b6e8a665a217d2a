import { SluiceError } from './errors.ts'
import { refuse } from './validate.ts'

/** A unit of the calendar: its text in a window, the milliseconds of the longest one, and the step from one unit to the next. */
export interface CalendarUnit {
  readonly text: '1d' | '1w' | '1mo' | '1y'
  readonly longest: number
  readonly step: readonly [years: number, months: number, days: number]
}

const UNITS: readonly CalendarUnit[] = [
  { text: '1d', longest: 86_400_000, step: [0, 0, 1] },
  { text: '1w', longest: 604_800_000, step: [0, 0, 7] },
  { text: '1mo', longest: 2_678_400_000, step: [0, 1, 0] },
  { text: '1y', longest: 31_622_400_000, step: [1, 0, 0] },
]
const DAY = 86_400_000

/** Returns the unit for a window. The window is the text of the unit, or the milliseconds of the longest one. */
export function calendarUnit(window: unknown): CalendarUnit {
  const unit = UNITS.find(({ text, longest }) => text === window || longest === window)
  return unit ?? refuse('window', "'1d', '1w', '1mo' or '1y' with anchor: 'calendar'", window)
}

/** Three windows of a calendar near a time: the start of the first one in epoch seconds, and the length of each in seconds. */
export interface CalendarWindows {
  readonly first: number
  readonly before: number
  readonly current: number
  readonly after: number
}

/** The largest number of remembered pairs of zone and unit. There are about 600 zones, and many spellings of their names. */
const MOST_REMEMBERED = 1000
const formats = new Map<string, Intl.DateTimeFormat>()
const remembered = new Map<string, CalendarWindows>()

/** Checks a time zone. Throws `INVALID_OPTION`, and `NOT_APPLICABLE` where the runtime has no time zones. */
export function checkedTimeZone(zone: unknown): string {
  if (typeof zone !== 'string') return refuse('timeZone', EXPECTED_ZONE, zone)
  formatOf(zone)
  return zone
}

const EXPECTED_ZONE = "a time zone such as 'Europe/Berlin' or 'UTC'"

/**
 * Returns the windows near a time in epoch milliseconds. A day starts at midnight. If the clocks skip midnight, it starts at the end of
 * this gap. Weeks start on Monday, months and years on their first day.
 */
export function calendarWindows(zone: string, unit: CalendarUnit, time: number): CalendarWindows {
  const id = `${unit.text} ${zone}`
  const known = remembered.get(id)
  const start = known === undefined ? 0 : known.first + known.before
  if (known !== undefined && time >= start * 1000 && time < (start + known.current) * 1000) return known
  const found = findWindows(formatOf(zone), unit, time)
  bounded(remembered).set(id, found)
  return found
}

function findWindows(format: Intl.DateTimeFormat, unit: CalendarUnit, time: number): CalendarWindows {
  const date = startDate(unit, localTime(format, time))
  const starts: number[] = []
  // A zone can skip a whole day. This day is then not a window.
  for (let i = -3; i <= 4; i++) {
    const start = startOfDay(format, stepped(date, unit, i))
    if (starts.at(-1) !== start) starts.push(start)
  }
  const at = starts.findLastIndex((start) => start <= time)
  const [first, second, third, fourth] = starts.slice(at - 1, at + 3).map((ms) => ms / 1000)
  return { first: first!, before: second! - first!, current: third! - second!, after: fourth! - third! }
}

/** Returns the start date of the window that contains a local time. Both are written as if they were in UTC. */
function startDate({ text }: CalendarUnit, local: number): Date {
  const date = new Date(Math.floor(local / DAY) * DAY)
  if (text === '1w') date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7))
  if (text === '1mo' || text === '1y') date.setUTCDate(1)
  if (text === '1y') date.setUTCMonth(0)
  return date
}

function stepped(from: Date, { step: [years, months, days] }: CalendarUnit, times: number): number {
  const date = new Date(from)
  date.setUTCFullYear(date.getUTCFullYear() + years * times)
  date.setUTCMonth(date.getUTCMonth() + months * times)
  return date.setUTCDate(date.getUTCDate() + days * times)
}

/** Returns the first moment of a local date: the earlier of two midnights, or the end of a gap that begins at midnight. */
function startOfDay(format: Intl.DateTimeFormat, midnight: number): number {
  const before = offsetAt(format, midnight - DAY)
  const after = offsetAt(format, midnight + DAY)
  for (const offset of [Math.max(before, after), Math.min(before, after)]) {
    if (offsetAt(format, midnight - offset) === offset) return midnight - offset
  }
  return midnight - before
}

/** Returns local time minus UTC, in milliseconds. */
function offsetAt(format: Intl.DateTimeFormat, time: number): number {
  return localTime(format, time) - Math.floor(time / 1000) * 1000
}

/** Returns the local time at a moment, in whole seconds, as the milliseconds of the same time in UTC. */
function localTime(format: Intl.DateTimeFormat, time: number): number {
  const parts: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {}
  for (const { type, value } of format.formatToParts(time)) parts[type] = Number(value)
  const { year, month, day, hour, minute, second } = parts
  return Date.UTC(year!, month! - 1, day, hour, minute, second)
}

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone)
  if (known !== undefined) return known
  const made = createFormat(zone)
  bounded(formats).set(zone, made)
  return made
}

function createFormat(zone: string): Intl.DateTimeFormat {
  if (typeof Intl === 'undefined') {
    const hint = 'Use a Node.js that is built with ICU, which is the default build'
    throw new SluiceError('NOT_APPLICABLE', `timeZone: this runtime has no time zones (Intl). ${hint}`)
  }
  const numeric = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric' } as const
  const time = { minute: 'numeric', second: 'numeric', hourCycle: 'h23' } as const
  try {
    return new Intl.DateTimeFormat('en-US-u-ca-iso8601-nu-latn', { timeZone: zone, ...numeric, ...time })
  } catch {
    return refuse('timeZone', EXPECTED_ZONE, zone)
  }
}

function bounded<Value>(map: Map<string, Value>): Map<string, Value> {
  if (map.size >= MOST_REMEMBERED) map.clear()
  return map
}
