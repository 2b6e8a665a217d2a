import { grouped } from '../table.ts'
import { LONGEST_REORDER, type LogSettings } from './options.ts'
import { lateText, type Unread } from './problems.ts'
import type { ReadLogs } from './read.ts'

/** What was read, and what was not. */
export interface LogSummary {
  readonly lines: number
  readonly requests: number
  /** The first and the last request, in ISO 8601. */
  readonly from: string
  readonly until: string
  readonly files: readonly { readonly file: string; readonly format: string }[]
  readonly unread: readonly Unread[]
  /** What a reader should know about the figures. */
  readonly notes: readonly string[]
}

export function summaryOf(read: ReadLogs, options: LogSettings): LogSummary {
  const { problems, requests, from, until, formats } = read
  return {
    lines: problems.lines,
    requests,
    from: new Date(from).toISOString(),
    until: new Date(until).toISOString(),
    files: formats.map(([file, format]) => ({ file, format })),
    unread: problems.unread,
    notes: notesOf(read, options),
  }
}

function notesOf({ problems, requests }: ReadLogs, { reorder }: LogSettings): string[] {
  const { late, latest, sorted, withoutKey, hasFractions, notes } = problems
  const found = [...notes]
  if (sorted > 0)
    found.push(
      `${grouped(sorted)} ${sorted === 1 ? 'line was' : 'lines were'} ${lateText(reorder)}. They were sorted by time`,
    )
  if (late > 0) {
    const hint = latest > LONGEST_REORDER ? '' : `. --reorder ${Math.ceil(latest / 1000)}s includes them`
    found.push(`${grouped(late)} lines are omitted: they are ${lateText(reorder)}${hint}`)
  }
  if (withoutKey > 0)
    found.push(
      `${grouped(withoutKey)} of ${grouped(requests + late)} requests have no key. They share one key, as in a server`,
    )
  if (!hasFractions) found.push('the log has whole seconds: requests within a second count as simultaneous')
  return found
}

/** Writes the summary for people: what was read above the figures, and the notes. */
export function summaryLines({ lines, requests, from, until, files, unread, notes }: LogSummary): string[] {
  const formats = [...new Set(files.map(({ format }) => format))].join(', ')
  const head = `${grouped(requests)} requests of ${grouped(lines)} lines (${formats}), from ${from} to ${until}`
  return [head, ...unread.flatMap(unreadLines), ...notes.map((note) => `note: ${note}`)]
}

function unreadLines({ reason, lines, samples }: Unread): string[] {
  const shown = samples.map(({ file, line, text }) => `  ${file}:${line}: ${text}`)
  return [`not read: ${grouped(lines)} ${lines === 1 ? 'line' : 'lines'}, ${reason}`, ...shown]
}
