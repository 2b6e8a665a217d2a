import { MOST_REQUESTS, type Traffic, validSpan } from './traffic.ts'

/** The longest text that is read, in characters. */
export const LONGEST_TEXT = 100_000

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const EXPECTED = 'Expected seconds such as 0.5, durations such as 500ms or 2m, or dates such as 2026-01-31T12:00:00Z'

/**
 * Reads a list of times, separated by spaces, commas or lines. Dates count from the first one. Throws an `Error` that says what is wrong.
 * @example parseTimes('0 0.5 2s') // { times: [0, 500, 2000], span: … }
 */
export function parseTimes(text: string): Traffic {
  if (text.length > LONGEST_TEXT) throw new Error(`The text is longer than ${LONGEST_TEXT} characters.`)
  const words = text.split(/[\s,;]+/).filter((word) => word !== '')
  if (words.length === 0) throw new Error(`There are no times. ${EXPECTED}.`)
  if (words.length > MOST_REQUESTS) throw new Error(`There are ${words.length} times. The most is ${MOST_REQUESTS}.`)
  return fromStart(words.map(instant))
}

interface Instant {
  readonly ms: number
  readonly isDate: boolean
}

function instant(word: string, index: number): Instant {
  const [, number, unit = 's'] = /^(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)?$/.exec(word) ?? []
  if (number !== undefined) return { ms: Math.round(Number(number) * UNITS[unit]!), isDate: false }
  const ms = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:?\d\d)?$/.test(word) ? Date.parse(word) : Number.NaN
  if (!Number.isNaN(ms)) return { ms, isDate: true }
  throw new Error(`Time ${index + 1} is "${word.slice(0, 40)}". ${EXPECTED}.`)
}

function fromStart(instants: readonly Instant[]): Traffic {
  const dates = instants.filter(({ isDate }) => isDate).length
  if (dates > 0 && dates < instants.length)
    throw new Error('The list has dates and other times. Expected only one kind.')
  const sorted = instants.map(({ ms }) => ms).toSorted((a, b) => a - b)
  const times = dates === 0 ? sorted : sorted.map((ms) => ms - sorted[0]!)
  const span = validSpan(times.at(-1)! * 1.02 + 1)
  if (times.at(-1)! >= span) throw new Error('The times are more than a year apart.')
  return { times, span }
}

/** Writes times as text that `parseTimes` reads. */
export function timesText(times: readonly number[]): string {
  return times.map((time) => time / 1000).join(' ')
}
