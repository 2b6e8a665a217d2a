import { roughDuration } from '../util/duration.ts'
import { showInvisible } from '../util/invisible.ts'
import type { Held, HeldByLimit } from '../stores/held.ts'

/**
 * Lays rows out in columns. The first row has the headings. Control characters are escaped, so that a row is one line.
 * @param numbers the columns that are aligned to the right
 */
export function columns(given: readonly (readonly string[])[], numbers: ReadonlySet<number>): string[] {
  const rows = given.map((row) => row.map(inOneLine))
  const widths = rows[0]!.map((_, i) => rows.reduce((most, row) => Math.max(most, charactersOf(row[i]!).length), 0))
  return rows.map((row) => {
    const cells = row.map((cell, i) => {
      const space = ' '.repeat(widths[i]! - charactersOf(cell).length)
      return numbers.has(i) ? space + cell : cell + space
    })
    return cells.join('  ').trimEnd()
  })
}

/** Returns the code points of a text. A text that is cut inside a code point would print neither half. */
export function charactersOf(text: string): string[] {
  return Array.from(text)
}

export function grouped(number: number): string {
  return number.toLocaleString('en')
}

/** Writes a share in per cent, with enough digits to tell it from 0. */
export function percent(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %'
  const share = (100 * part) / whole
  const digits = share >= 10 ? 1 : Math.min(6, Math.max(2, Math.ceil(-Math.log10(share)) + 1))
  return `${Number(share.toFixed(digits))} %`
}

/** Returns the answer in JSON: the rest of each limit. With `raw`, also the stored state. */
export function answerOf(held: Held, raw: boolean): object {
  const limits = held.limits.map((each) => {
    const { limit, algorithm, verdict, lockedFor, ...stored } = each
    const { capacity: quota, used, remaining, resetAfter } = verdict ?? {}
    return { limit, quota, used, remaining, resetAfter, lockedFor, algorithm, ...(raw && { verdict, ...stored }) }
  })
  return { ...held, limits }
}

export function printed(held: Held, raw: boolean): string {
  if (held.limits.length === 0) return `${held.key}: no state\n`
  const kept = held.ttl === undefined ? 'kept forever' : `kept for ${roughDuration(held.ttl)}`
  const parts = [`${held.key} (${kept})`, table(held.limits), ...(raw ? held.limits.map(details) : [])]
  return `${parts.join('\n\n').trimEnd()}\n`
}

const HEADINGS = ['limit', 'quota', 'used', 'remaining', 'resets in', 'locked for', 'algorithm']
const NUMBERS = new Set([1, 2, 3])

function table(limits: readonly HeldByLimit[]): string {
  return columns([HEADINGS, ...limits.map(row)], NUMBERS).join('\n')
}

function row({ limit, algorithm, verdict, lockedFor }: HeldByLimit): string[] {
  const { capacity, used, resetAfter, slots = false } = verdict ?? {}
  const remaining = verdict && (lockedFor > 0 ? 0 : verdict.remaining)
  const numbers = [capacity, used, remaining].map(countText)
  return [limit, ...numbers, ...timeCells(resetAfter, slots, lockedFor), algorithm ?? '–']
}

/** Writes a number, or `?` if the algorithm of the limit is not registered here. */
export function countText(count: number | undefined): string {
  return count === undefined ? '?' : grouped(count)
}

/**
 * Writes the time until all units are back, and the time for which the key is locked out. Slots are back when their requests end, or at the
 * latest when they expire.
 */
export function timeCells(resetAfter: number | undefined, slots: boolean, lockedFor: number): [string, string] {
  const locked = lockedFor > 0 ? roughDuration(lockedFor) : '–'
  if (resetAfter === undefined) return ['?', locked]
  const ms = Math.max(resetAfter, lockedFor)
  return [slots && ms > 0 ? `expires ${roughDuration(ms)}` : roughDuration(ms), locked]
}

function details({ limit, parameters, state, entries, span, denials }: HeldByLimit): string {
  const lines = [limit]
  const numbers = Object.entries(parameters).map(([name, value]) => `${name} ${value}`)
  if (numbers.length > 0) lines.push(`  parameters  ${numbers.join(', ')}`)
  if (state.length > 0) lines.push(`  state       ${state.map(({ name, value }) => `${name} ${value}`).join(', ')}`)
  if (span !== undefined) lines.push(`  entries     ${entries.length} from ${span[0]} to ${span[1]}`)
  if (denials > 0) lines.push(`  denials     ${denials}`)
  return lines.join('\n')
}

/** Shows invisible characters except line feeds: a key cannot send commands to the terminal then. */
export function escaped(text: string): string {
  return showInvisible(text, '\n')
}

export function inOneLine(text: string): string {
  return escaped(text).replaceAll('\n', '\\n')
}

/** Find passwords in any text: the start of a server URL up to the end of its user information, also if malformed, and a query `password=`. */
const USER_INFORMATION = /([a-z][a-z\d+.-]*(?::\/{0,2}|\/\/)(?:[^:@/\s]*:)?)\S*@/gi
const PASSWORD = /([?&]password=)[^&\s'"]+/gi

/** Hides passwords in an error message. A user may pass the URL of a server where a command expects a file. */
export function withoutPasswords(message: string): string {
  return message.replaceAll(USER_INFORMATION, '$1***@').replaceAll(PASSWORD, '$1***')
}

export function jsonText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

/** The streams of a command. `process` is an example. */
export interface Io {
  /** The standard input, for a log `-`. */
  readonly stdin: AsyncIterable<Buffer>
  readonly stdout: { write(text: string): unknown; readonly isTTY?: boolean }
  readonly stderr: { write(text: string): unknown }
}

/** The exit codes of all commands: success, failure, wrong call. */
export const EXIT = { done: 0, failed: 1, misused: 2 } as const

export interface Outcome {
  readonly text: string
  /** True if the text is written without escaping, except to a terminal. */
  readonly isExact?: boolean
  /** Written to the standard error. */
  readonly note?: string
  /** Default: `EXIT.done`. */
  readonly exitCode?: number
}

/** The codes of errors about words of the command line. Errors about the content of files and Redis have other codes. */
const MISUSE: ReadonlySet<unknown> = new Set([
  'INVALID_OPTION',
  'UNKNOWN_OPTION',
  'UNKNOWN_ALGORITHM',
  'OUT_OF_RANGE',
  'DUPLICATE_LIMIT',
])

export function exitCodeOf(error: unknown): number {
  const { code } = (error ?? {}) as { code?: unknown }
  const isParsing = typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS')
  return MISUSE.has(code) || isParsing ? EXIT.misused : EXIT.failed
}
