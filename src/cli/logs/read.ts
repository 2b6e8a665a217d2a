import { roughDuration } from '../../util/duration.ts'
import { statSync } from 'node:fs'
import { SluiceError } from '../../util/errors.ts'
import { grouped, percent } from '../print.ts'
import type { LogEntry } from './request.ts'
import { type LogSettings, LONGEST_REORDER } from './options.ts'
import { Memory } from './reorder.ts'
import { type Unread, Problems, Source } from './source.ts'

/** Shows on a terminal how much of the logs was read. */
interface Progress {
  add(bytes: number): void
  close(): void
}

const WIDTH = 30
/** Milliseconds between two updates. */
const INTERVAL = 100
const CLEAR = '\r\u001b[K'

/**
 * Opens a progress bar on the standard error, if it is a terminal.
 * @param total the number of all bytes, or 0 if it is not known
 */
export function openProgress(total: number, output: NodeJS.WriteStream = process.stderr): Progress {
  if (!output.isTTY) return { add: () => undefined, close: () => undefined }
  let [done, next, isShown] = [0, performance.now() + INTERVAL, false]
  return {
    add(bytes) {
      done += bytes
      if (performance.now() < next) return
      next = performance.now() + INTERVAL
      isShown = true
      output.write(`${CLEAR}${bar(done, total)}`)
    },
    close() {
      if (isShown) output.write(CLEAR)
    },
  }
}

function bar(done: number, total: number): string {
  const read = `${Math.floor(done / 1e6).toLocaleString('en')} MB`
  if (total === 0) return read
  const share = Math.min(1, done / total)
  const filled = Math.round(share * WIDTH)
  return `${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)} ${Math.floor(share * 100)} % ${read}`
}

/** Describes lines that come after their reorder window. */
function lateText(reorder: number): string {
  return reorder === 0 ? 'out of order' : `more than ${roughDuration(reorder)} late`
}

/** Receives the entries of logs in order, each with its file. */
export type EachEntry = (entry: LogEntry, file: string) => void

const MOST_FILES = 1000
/** The share of the requests of a file that may be omitted. */
const MOST_OMITTED = 0.01

/**
 * Reads all files at the same time and passes their entries on in the order of their times. So rotated files, and files of several servers,
 * can be given in any order. Entries with the same time are in the order of the files and of their lines.
 *
 * If a line of a file comes after its reorder window, all files are read again with a window that includes it. The standard input cannot be read again, so
 * files beside it are read once before it, and its own late lines are omitted.
 *
 * Throws `LOG_UNREADABLE` for a file that cannot be read, if no line can be read, and if more than 1 % of the requests of a file are omitted, such as
 * those of a window that does not fit into memory.
 * @param begin is called before the first entry is passed on, each time the files are read. Returns the function that receives the entries
 */
export async function readLogs(
  paths: readonly string[],
  options: LogSettings,
  begin: () => EachEntry,
): Promise<LogSummary> {
  if (paths.length > MOST_FILES) throw new SluiceError('INVALID_OPTION', `expected at most ${MOST_FILES} files`)
  const files = paths.filter(isFile)
  const isRepeatable = files.length === paths.length
  const first = await pass(files, options, isRepeatable ? begin() : () => undefined)
  if (isRepeatable && lateIn(first.sources) === 0) return summaryOf(first, options)
  const delays = new Map(first.sources.map(({ path, latest }) => [path, latest]))
  const second = await pass(paths, options, begin(), delays)
  // Lines that did not fit into memory are omitted.
  const sorted = lateIn(first.sources) - lateIn(second.sources.filter(({ path }) => delays.has(path)))
  if (sorted > 0)
    second.problems.notes.push(
      `${grouped(sorted)} ${sorted === 1 ? 'line was' : 'lines were'} ${lateText(options.reorder)}. The log was sorted by time`,
    )
  return summaryOf(second, options)
}

/** Returns the number of late lines. */
function lateIn(sources: readonly Source[]): number {
  return sources.reduce((sum, { late }) => sum + late, 0)
}

/** The requests of all files. */
interface Pass {
  readonly sources: readonly Source[]
  readonly problems: Problems
  requests: number
  /** Epoch milliseconds of the first and the last request. */
  from: number
  until: number
}

/**
 * Reads all files once.
 * @param delays how late the lines of each file are, if it is known
 */
async function pass(
  paths: readonly string[],
  options: LogSettings,
  each: EachEntry,
  delays?: ReadonlyMap<string, number>,
): Promise<Pass> {
  const problems = new Problems()
  const progress = openProgress(sizeOf(paths))
  const memory = new Memory()
  const sources = paths.map((path) => {
    const window = Math.max(options.reorder, delays?.get(path) ?? 0)
    return new Source(path, { ...options, reorder: window }, problems, memory, progress.add)
  })
  const done: Pass = { sources, problems, requests: 0, from: NaN, until: NaN }
  try {
    await merge(sources, (entry, file) => {
      done.until = entry.request.time
      if (done.requests++ === 0) done.from = done.until
      each(entry, file)
    })
  } finally {
    progress.close()
  }
  return done
}

async function merge(sources: readonly Source[], each: EachEntry): Promise<void> {
  let open: Source[] = []
  for (const source of sources) if (await source.fill()) open.push(source)
  while (open.length > 0) {
    const source = earliest(open)
    each(source.take(), source.path)
    if (source.next === undefined && !(await source.fill())) open = open.filter((other) => other !== source)
  }
}

/** Returns the source with the earliest next entry. The first of several is the first in the list. */
function earliest(sources: readonly Source[]): Source {
  let found = sources[0]!
  for (const source of sources) if (source.next!.request.time < found.next!.request.time) found = source
  return found
}

/** Returns true for a file that can be read again, and false for a pipe. */
function isFile(path: string): boolean {
  if (path === '-') return false
  try {
    return statSync(path).isFile()
  } catch {
    // A later attempt to open the file throws the error to report.
    return true
  }
}

/** Returns the number of bytes of all files, or 0 if it is not known. */
function sizeOf(paths: readonly string[]): number {
  try {
    return paths.reduce((sum, path) => sum + statSync(path === '-' ? '/dev/stdin' : path).size, 0)
  } catch {
    return 0
  }
}

function nothingRead({ lines, unread, notes }: Problems): SluiceError {
  if (lines === 0) return new SluiceError('LOG_UNREADABLE', notes[0] ?? 'the log is empty')
  const reasons = unread.map((each) => `${each.lines} ${each.reason}`).join(', ')
  const hint = 'Set --format, or --time for JSON lines of another program'
  return new SluiceError('LOG_UNREADABLE', `none of ${lines} lines can be read: ${reasons}. ${hint}`)
}

function tooLate({ path, late, requests, latest, isFull }: Source, reorder: number): SluiceError {
  const all = late + requests
  const share = `${grouped(late)} of ${grouped(all)} requests (${percent(late, all)})`
  if (isFull)
    return new SluiceError(
      'LOG_UNREADABLE',
      `${path}: the lines that are out of order do not fit into memory, so ${share} would be omitted. Sort the log by time, pass joined logs as files ` +
        'of their own, or give Node more memory: NODE_OPTIONS=--max-old-space-size=8192',
    )
  const hint = latest > LONGEST_REORDER ? '' : `, or set --reorder ${Math.ceil(latest / 1000)}s`
  const name = path === '-' ? 'the standard input' : path
  return new SluiceError(
    'LOG_UNREADABLE',
    `${name}: ${share} are ${lateText(reorder)}, so the figures would be wrong. Write the log to a file, which is sorted${hint}`,
  )
}

export interface LogSummary {
  readonly lines: number
  readonly requests: number
  /** The first and the last request, in ISO 8601. */
  readonly from: string
  readonly until: string
  readonly files: readonly { readonly file: string; readonly format: string }[]
  readonly unread: readonly Unread[]
  /** Remarks about the figures for the reader. */
  readonly notes: readonly string[]
}

function summaryOf(pass: Pass, { reorder }: LogSettings): LogSummary {
  const { sources, problems, requests, from, until } = pass
  if (requests === 0) throw nothingRead(problems)
  for (const source of sources)
    if (source.late > MOST_OMITTED * (source.late + source.requests)) throw tooLate(source, reorder)
  return {
    lines: problems.lines,
    requests,
    from: new Date(from).toISOString(),
    until: new Date(until).toISOString(),
    files: sources.map(({ path, format }) => ({ file: path, format: format.name ?? 'unknown' })),
    unread: problems.unread,
    notes: notesOf(pass, reorder),
  }
}

function notesOf({ sources, problems, requests }: Pass, reorder: number): string[] {
  const { withoutKey, hasFractions, notes } = problems
  const found = [...notes]
  const late = lateIn(sources)
  if (late > 0) {
    const latest = Math.max(...sources.map((each) => each.latest))
    const isFull = sources.some((each) => each.isFull)
    const hint = isFull || latest > LONGEST_REORDER ? '' : `. --reorder ${Math.ceil(latest / 1000)}s includes them`
    found.push(
      `${grouped(late)} ${late === 1 ? 'line is omitted, because it is' : 'lines are omitted, because they are'} ${lateText(reorder)}${hint}`,
    )
  }
  if (withoutKey > 0)
    found.push(
      `${grouped(withoutKey)} of ${grouped(requests + late)} requests have no key. They share one key, as in a server`,
    )
  if (!hasFractions) found.push('the log has whole seconds: requests within a second count as simultaneous')
  return found
}

/** Writes the lines above the figures: what was read, and the notes. */
export function summaryLines({ lines, requests, from, until, files, unread, notes }: LogSummary): string[] {
  const formats = [...new Set(files.map(({ format }) => format))].join(', ')
  const head = `${grouped(requests)} requests of ${grouped(lines)} lines (${formats}), from ${from} to ${until}`
  return [head, ...unread.flatMap(unreadLines), ...notes.map((note) => `note: ${note}`)]
}

function unreadLines({ reason, lines, samples }: Unread): string[] {
  const shown = samples.map(({ file, line, text }) => `  ${file}:${line}: ${text}`)
  return [`not read: ${grouped(lines)} ${lines === 1 ? 'line' : 'lines'}, ${reason}`, ...shown]
}
