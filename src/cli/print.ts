import { timeText } from './cells.ts'
import type { Held, HeldByLimit } from './held.ts'

/** For a machine, or for people: a table of what it comes to, and below it what is stored. */
export function printed(held: Held, json: boolean): string {
  if (json) return `${JSON.stringify(held, undefined, 2)}\n`
  if (held.limits.length === 0) return `${held.key}: nothing is held\n`
  const kept = held.ttl === undefined ? 'kept for ever' : `kept for ${duration(held.ttl)}`
  return [`${held.key} (${kept})`, table(held.limits), ...held.limits.map(details), ''].join('\n\n').trimEnd() + '\n'
}

const HEADINGS = ['limit', 'algorithm', 'remaining', 'free again in', 'locked for', 'entries']

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
  const free = verdict === undefined ? '?' : duration(Math.max(verdict.resetAfter, lockedFor))
  const locked = lockedFor > 0 ? duration(lockedFor) : '–'
  return [limit, algorithm ?? '–', remaining, free, locked, entries.length > 0 ? String(entries.length) : '–']
}

function details({ limit, parameters, state, entries }: HeldByLimit): string {
  const lines = [limit]
  const numbers = Object.entries(parameters).map(([name, value]) => `${name} ${value}`)
  if (numbers.length > 0) lines.push(`  parameters  ${numbers.join(', ')}`)
  if (state.length > 0) lines.push(`  state       ${state.map(({ name, value }) => `${name} ${value}`).join(', ')}`)
  if (entries.length > 0) lines.push(`  entries     ${span(entries, parameters)}`)
  return lines.join('\n')
}

function span(entries: HeldByLimit['entries'], { grain = 1, perMs = 1 }: Readonly<Record<string, number>>): string {
  const at = (index: number): string => timeText((entries.at(index)!.time * grain) / perMs)
  return `${entries.length} from ${at(0)} to ${at(-1)}`
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const

/** The two largest units of a duration. */
function duration(ms: number): string {
  if (ms < 1000) return ms === 0 ? 'now' : `${Math.ceil(ms)} ms`
  const at = UNITS.findIndex(([, size]) => ms >= size)
  const [unit, size] = UNITS[at]!
  const whole = `${Math.floor(ms / size)} ${unit}`
  const next = UNITS[at + 1]
  const rest = next === undefined ? 0 : Math.floor((ms % size) / next[1])
  return rest === 0 ? whole : `${whole} ${rest} ${next![0]}`
}
