import { roughDuration } from '../util/duration.ts'
import type { Held, HeldByLimit } from '../stores/redis/inspect/held.ts'

/** Returns JSON, or a text: a table of the verdicts, and the stored numbers below it. */
export function printed(held: Held, json: boolean): string {
  if (json) return `${JSON.stringify(held, undefined, 2)}\n`
  if (held.limits.length === 0) return `${held.key}: no state\n`
  const kept = held.ttl === undefined ? 'kept forever' : `kept for ${roughDuration(held.ttl)}`
  return [`${held.key} (${kept})`, table(held.limits), ...held.limits.map(details), ''].join('\n\n').trimEnd() + '\n'
}

const HEADINGS = ['limit', 'algorithm', 'remaining', 'resets in', 'locked for', 'entries']

function table(limits: readonly HeldByLimit[]): string {
  const rows = [HEADINGS, ...limits.map(row)]
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((each) => each[column]!.length)))
  const lines = rows.map((each) =>
    each
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  lines.splice(1, 0, widths.map((width) => '─'.repeat(width)).join('  '))
  return lines.join('\n')
}

function row({ limit, algorithm, verdict, lockedFor, entries }: HeldByLimit): string[] {
  const remaining = verdict === undefined ? '?' : lockedFor > 0 ? '0' : String(verdict.remaining)
  const free = verdict === undefined ? '?' : roughDuration(Math.max(verdict.resetAfter, lockedFor))
  const locked = lockedFor > 0 ? roughDuration(lockedFor) : '–'
  return [limit, algorithm ?? '–', remaining, free, locked, entries.length > 0 ? String(entries.length) : '–']
}

function details({ limit, parameters, state, entries, span }: HeldByLimit): string {
  const lines = [limit]
  const numbers = Object.entries(parameters).map(([name, value]) => `${name} ${value}`)
  if (numbers.length > 0) lines.push(`  parameters  ${numbers.join(', ')}`)
  if (state.length > 0) lines.push(`  state       ${state.map(({ name, value }) => `${name} ${value}`).join(', ')}`)
  if (span !== undefined) lines.push(`  entries     ${entries.length} from ${span[0]} to ${span[1]}`)
  return lines.join('\n')
}

/** Every control character except the line feed, and characters that change the direction of text: keys may contain them. */
// oxlint-disable-next-line no-control-regex -- these are the characters to escape
const CONTROL = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** Writes control characters as JSON does, so that a key cannot send commands to the terminal. */
export function escaped(text: string): string {
  return text.replaceAll(CONTROL, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** A URL of a server in any text, also a malformed one, up to the end of its user information, and a password in its query. */
const USER_INFORMATION = /([a-z][a-z\d+.-]*(?::\/{0,2}|\/\/)(?:[^:@/\s]*:)?)\S*@/gi
const PASSWORD = /([?&]password=)[^&\s'"]+/gi

/** Hides passwords in an error message. A user may pass the URL of a server where a command expects a file. */
export function withoutPasswords(message: string): string {
  return message.replaceAll(USER_INFORMATION, '$1***@').replaceAll(PASSWORD, '$1***')
}
