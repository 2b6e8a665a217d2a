import { copyText } from '../../util/bounded-key.ts'

/** The length of a time such as `22/Nov/2026:10:48:04 +0000`. */
export const CLF_LENGTH = 26

const CLF = /^(\d\d)\/([A-Za-z]{3})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})$/
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Reads the times of the common log format. Most lines have the same minute as the line before, so the last minute is remembered. */
export class ClfTime {
  /** The last minute, such as `22/Nov/2026:10:48:`. */
  #minute = ''
  /** The zone of the last minute, such as ` +0000`. */
  #zone = ''
  #time = NaN

  /** Reads the time at a place in a line. Returns epoch milliseconds, or `NaN`. */
  read(line: string, at: number): number {
    const isKnown = this.#minute !== '' && line.startsWith(this.#minute, at) && line.startsWith(this.#zone, at + 20)
    const second = digits(line, at + 18)
    if (isKnown && second < 60) return this.#time + second * 1000
    const text = line.slice(at, at + CLF_LENGTH)
    const time = clfTime(text)
    if (Number.isNaN(time) || !(second < 60)) return time
    this.#minute = copyText(text.slice(0, 18))
    this.#zone = text.slice(20)
    this.#time = time - second * 1000
    return time
  }
}

/** Returns the epoch milliseconds of a time such as `22/Nov/2026:10:48:04 +0000`, or `NaN`. */
function clfTime(text: string): number {
  const found = CLF.exec(text)
  if (found === null) return NaN
  const [, day, month, year, hour, minute, second, zone] = found
  const date = utc(+year!, MONTHS.indexOf(month!), +day!, +hour!, +minute!, +second!)
  return date - offset(zone!) * 60_000
}

/** A time of ISO 8601 with an optional fraction and an optional zone. */
const ISO = /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?$/i
/** A time of HTTP, such as `Sun, 22 Nov 2026 10:48:04 GMT`. */
const HTTP = /^[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d:\d\d:\d\d) GMT$/

/**
 * Returns the epoch milliseconds of a time in ISO 8601, or `NaN`.
 * @param zone minutes east of UTC, for a time without a zone. With `undefined`, such times are `NaN`
 */
export function isoTime(text: string, zone: number | undefined): number {
  const found = text.length > 40 ? null : ISO.exec(text)
  if (found === null) return NaN
  const [, year, month, day, hour, minute, second, fraction = '', written] = found
  const date = utc(+year!, +month! - 1, +day!, +hour!, +minute!, +second!)
  const minutes = written === undefined ? (zone ?? NaN) : offset(written)
  return date - minutes * 60_000 + Math.floor(Number(`0.${fraction || 0}`) * 1e6) / 1e3
}

/**
 * Returns the epoch milliseconds of a value in JSON, or `NaN`. The size of a number shows if it is in seconds, milliseconds, microseconds or
 * nanoseconds: for dates from 1973 to 5138 only one unit is possible.
 */
export function anyTime(value: unknown, zone: number | undefined): number {
  if (typeof value === 'number') return numberTime(value)
  if (typeof value !== 'string') return NaN
  if (/^\d{9,19}(\.\d{1,9})?$/.test(value)) return numberTime(Number(value))
  const http = value.length > 40 ? null : HTTP.exec(value)
  if (http !== null) return clfTime(`${http[1]}/${http[2]}/${http[3]}:${http[4]} +0000`)
  return value[2] === '/' ? clfTime(value) : isoTime(value, zone)
}

function numberTime(value: number): number {
  if (!(value >= 1e8 && value < 1e20)) return NaN
  if (value < 1e11) return Math.round(value * 1e6) / 1e3
  if (value < 1e14) return value
  return value < 1e17 ? value / 1e3 : Math.round(value / 1e3) / 1e3
}

/** Returns the minutes east of UTC of `Z`, `+0200` or `+02:00`, or `NaN`. */
export function offset(text: string): number {
  if (text === 'Z' || text === 'z') return 0
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)$/.exec(text) ?? []
  if (!(Number(hours) <= 14 && Number(minutes) < 60)) return NaN
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes))
}

/** Returns epoch milliseconds, or `NaN` for a date that does not exist. Epoch time has no leap seconds: 23:59:60 is 00:00:00. */
function utc(year: number, month: number, day: number, hour: number, minute: number, second: number): number {
  const isLeapSecond = second === 60 && minute === 59
  if (!(hour < 24 && minute < 60 && (second < 60 || isLeapSecond) && day > 0 && year >= 1000)) return NaN
  const date = Date.UTC(year, month, day)
  if (new Date(date).getUTCDate() !== day || new Date(date).getUTCMonth() !== month) return NaN
  return date + ((hour * 60 + minute) * 60 + second) * 1000
}

/** Returns the number of two digits at a place, or `NaN`. */
function digits(text: string, at: number): number {
  const [high, low] = [text.charCodeAt(at) - 48, text.charCodeAt(at + 1) - 48]
  return high >= 0 && high <= 9 && low >= 0 && low <= 9 ? high * 10 + low : NaN
}

/** One request of a log, as far as the log has it. A part that the log does not have is `''`. */
export interface LoggedRequest {
  /** When the request arrived, in epoch milliseconds. */
  readonly time: number
  readonly ip: string
  readonly user: string
  readonly method: string
  /** As it was sent, with the query. */
  readonly path: string
  /** By names in lower case, if they are asked for. */
  readonly headers: Headers | undefined
  /** The object of a JSON line, if it is asked for. */
  readonly fields: Fields | undefined
  /** Milliseconds from the arrival to the end of the response, if the line contains it. */
  readonly took?: number | undefined
}

export type Headers = Readonly<Record<string, string>>
export type Fields = Readonly<Record<string, unknown>>

/** Returns the request of a line, or why there is none. */
export type Parse = (line: string) => LoggedRequest | string

export interface ParseSettings {
  /** True if headers are read. They cost time. */
  readonly wantsHeaders: boolean
  /** True if fields of JSON lines are read by their names. They take memory. */
  readonly wantsFields: boolean
  /** The time zone of times without one, in minutes east of UTC. Default: such times are refused. */
  readonly zone: number | undefined
  /** The fields of general JSON lines: dotted paths by the parts of a request. */
  readonly fields: ReadonlyMap<string, string>
}

export const NO_REQUEST = 'no request'
export const NO_TIME = 'no time that can be read'
export const OTHER_FORMAT = 'another format'

/** Returns a time that a parser found as a reason, if it is none. */
export function isTime(time: number): boolean {
  return time >= 0 && time < LATEST
}

/** The year 5138, the latest that the clocks of stores take. */
const LATEST = 1e14

/** Text that was read at once. A part of it keeps the whole in memory. */
export interface Chunk {
  readonly size: number
  /** The entries of it that wait in a reorder window. */
  held: number
}

/** A request of a log with its key, its cost and its place. */
export interface LogEntry {
  readonly request: LoggedRequest
  readonly key: string
  readonly cost: number
  /** From 1. */
  readonly line: number
  readonly chunk: Chunk
}
