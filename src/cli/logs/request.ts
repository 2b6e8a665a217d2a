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
}

export type Headers = Readonly<Record<string, string>>
export type Fields = Readonly<Record<string, unknown>>

/** Returns the request of a line, or why there is none. */
export type Parse = (line: string) => LoggedRequest | string

/** What a parser is asked for. */
export interface ParseSettings {
  /** True if headers are read. They cost time. */
  readonly wantsHeaders: boolean
  /** True if fields of JSON lines are read by their names. They take memory. */
  readonly wantsFields: boolean
  /** The time zone of times without one, in minutes east of UTC. Default: such times are refused. */
  readonly zone: number | undefined
  /** The fields of general JSON lines: dotted paths by the parts of a request. */
  readonly fields: ReadonlyMap<string, readonly string[]>
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
