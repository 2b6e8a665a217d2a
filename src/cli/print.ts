import { roughDuration } from '../util/duration.ts'
import type { Held, HeldByLimit } from '../stores/redis/inspect/held.ts'
import { columns, grouped } from './table.ts'

/** Returns what to print as JSON: what is left of each limit. With `raw`, also what is stored. */
export function answerOf(held: Held, raw: boolean): object {
  const limits = held.limits.map((each) => {
    const { limit, algorithm, verdict, lockedFor, ...stored } = each
    const { capacity: quota, used, remaining, resetAfter } = verdict ?? {}
    return { limit, quota, used, remaining, resetAfter, lockedFor, algorithm, ...(raw && { verdict, ...stored }) }
  })
  return { ...held, limits }
}

/** Returns the same as a text. */
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
  const remaining = verdict && (lockedFor > 0 ? 0 : verdict.remaining)
  const numbers = [verdict?.capacity, verdict?.used, remaining].map((each) =>
    each === undefined ? '?' : grouped(each),
  )
  const free = verdict === undefined ? '?' : roughDuration(Math.max(verdict.resetAfter, lockedFor))
  const locked = lockedFor > 0 ? roughDuration(lockedFor) : '–'
  return [limit, ...numbers, free, locked, algorithm ?? '–']
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
