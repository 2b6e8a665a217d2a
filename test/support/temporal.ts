import type { Temporal } from '@js-temporal/polyfill'

export const UNITS = ['1d', '1w', '1mo', '1y'] as const
export type Unit = (typeof UNITS)[number]

/** Returns the start of the window of the calendar that contains a moment, or of a window that is some windows later. */
export function startOf(moment: Temporal.ZonedDateTime, unit: Unit, later = 0): number {
  const date = moment.toPlainDate()
  const first = {
    '1d': date.add({ days: later }),
    '1w': date.subtract({ days: date.dayOfWeek - 1 }).add({ weeks: later }),
    '1mo': date.with({ day: 1 }).add({ months: later }),
    '1y': date.with({ month: 1, day: 1 }).add({ years: later }),
  }[unit]
  return first.toZonedDateTime(moment.timeZoneId).startOfDay().epochMilliseconds
}
