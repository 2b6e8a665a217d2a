import { roughDuration } from '../../util/duration.ts'
import { statSync } from 'node:fs'
import { SluiceError } from '../../util/errors.ts'
import { grouped, percent } from '../print.ts'
import type { LogEntry } from './request.ts'
import { type LateLine, LateLines } from './late.ts'
import { type LogSettings, LONGEST_REORDER } from './options.ts'
import { type Input, type Unread, type OnLate, Problems, Source } from './source.ts'

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
/** The share of the requests of the standard input that may be omitted. */
const MOST_OMITTED = 0.01

/**
 * Reads all files at the same time and passes their entries on in the order of their times. So rotated files, and files of several servers,
 * can be given in any order. Entries with the same time are in the order of the files and of their lines.
 *
 * Files are read once if no line comes after its reorder window. Otherwise the late lines are sorted, the files are read again, and all
 * entries are passed on again. Late lines of the standard input are omitted.
 *
 * Throws `LOG_UNREADABLE` for a file that cannot be read, if no line can be read, and if more than 1 % of the requests of the standard
 * input are omitted.
 * @param begin is called before the first entry is passed on. Returns the function that receives the entries
 * @param once true if entries must not be passed on twice. Files are then always read twice
 */
export async function readLogs(
  paths: readonly string[],
  options: LogSettings,
  begin: () => EachEntry,
  once = false,
): Promise<LogSummary> {
  if (paths.length > MOST_FILES) throw new SluiceError('INVALID_OPTION', `expected at most ${MOST_FILES} files`)
  const inputs = paths.map((path, place): Input => ({ path, place, isFile: isFile(path), most: Infinity }))
  const files = inputs.filter((each) => each.isFile)
  // The standard input cannot be read again.
  const isTrial = !once && files.length === inputs.length
  const late = new LateLines()
  const trial = isTrial ? begin() : undefined
  // All late lines are collected. Entries are passed on until the first late line.
  const collect: OnLate = ({ place }, { request, line }, _, text) =>
    late.add({ time: request.time, file: place, line, text })
  const first = await pass(files, options, collect, undefined, (entry, file) => {
    if (late.count === 0) trial?.(entry, file)
  })
  const last = isTrial && late.count === 0 ? first : await secondPass(inputs, options, late, begin(), first.sources)
  return summaryOf(last, options)
}

interface Pass {
  readonly sources: readonly Source[]
  readonly problems: Problems
  requests: number
  /** Epoch milliseconds of the first and the last request. */
  from: number
  until: number
}

/** Passes all entries on. The late entries of files are passed on at their times. */
async function secondPass(
  inputs: readonly Input[],
  options: LogSettings,
  late: LateLines,
  each: EachEntry,
  before: readonly Source[],
): Promise<Pass> {
  const known = new Map(before.map((source) => [source.place, source]))
  // A server may have added lines since the first pass.
  const again = inputs.map((input) => ({ ...input, most: known.get(input.place)?.bytes ?? Infinity }))
  const omit: OnLate = ({ path, isFile: isSorted }, { line }, by, text, problems) => {
    if (!isSorted) problems.countLate(by, path, line, text)
  }
  const done = await pass(again, options, omit, late, each)
  for (const source of done.sources) {
    const { bytes, late: count, lateLines } = known.get(source.place) ?? source
    if (source.bytes !== bytes || source.late !== count || source.lateLines !== lateLines) throw changed(source)
  }
  done.problems.sorted = late.count
  return done
}

/**
 * Reads all inputs once.
 * @param late the late lines of an earlier pass, which are merged with the others
 */
async function pass(
  inputs: readonly Input[],
  options: LogSettings,
  onLate: OnLate,
  late: LateLines | undefined,
  each: EachEntry,
): Promise<Pass> {
  const problems = new Problems()
  const progress = openProgress(sizeOf(inputs))
  const sources = inputs.map((input) => new Source(input, options, problems, progress.add, onLate))
  const heads = late === undefined ? sources : [...sources, new LateHead(late.sorted(), sources)]
  const done: Pass = { sources, problems, requests: 0, from: NaN, until: NaN }
  try {
    await merge(heads, (entry, file) => {
      done.until = entry.request.time
      if (done.requests++ === 0) done.from = done.until
      each(entry, file)
    })
  } finally {
    progress.close()
  }
  return done
}

interface Head {
  /** The next entry, its file, and the place of the file in the list of all files. */
  readonly next: LogEntry | undefined
  readonly path: string
  readonly place: number
  take(): void
  /** Reads until there is a next entry. Returns false at the end. */
  fill(): boolean | Promise<boolean>
}

class LateHead implements Head {
  next: LogEntry | undefined
  path = ''
  place = 0
  readonly #lines: Generator<LateLine, void>
  readonly #sources: ReadonlyMap<number, Source>

  constructor(lines: Generator<LateLine, void>, sources: readonly Source[]) {
    this.#lines = lines
    this.#sources = new Map(sources.map((source) => [source.place, source]))
  }

  take(): void {
    this.next = undefined
    const { value, done } = this.#lines.next()
    if (done === true) return
    const source = this.#sources.get(value.file)!
    const entry = source.entryOf(value.text, value.line)
    if (typeof entry === 'string') throw changed(source)
    this.next = entry
    this.path = source.path
    this.place = source.place
  }

  fill(): boolean {
    this.take()
    return this.next !== undefined
  }
}

async function merge(heads: readonly Head[], each: EachEntry): Promise<void> {
  let open: Head[] = []
  for (const head of heads) if (await head.fill()) open.push(head)
  while (open.length > 0) {
    const first = earliest(open)!
    const second = earliest(open, first)
    const limit = second?.next?.request.time ?? Infinity
    for (let entry = first.next; entry !== undefined && entry.request.time <= limit; entry = first.next) {
      if (entry.request.time === limit && !isBefore(first, second!)) break
      const { path } = first
      first.take()
      each(entry, path)
    }
    if (first.next === undefined && !(await first.fill())) open = open.filter((head) => head !== first)
  }
}

/** Returns the head with the earliest entry. The head `except` is not considered. */
function earliest(heads: readonly Head[], except?: Head): Head | undefined {
  let found: Head | undefined
  for (const head of heads) if (head !== except && (found === undefined || isBefore(head, found))) found = head
  return found
}

function isBefore(one: Head, other: Head): boolean {
  const [first, second] = [one.next!, other.next!]
  const difference = first.request.time - second.request.time || one.place - other.place || first.line - second.line
  return difference < 0
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

/** Returns the number of bytes of all inputs, or 0 if it is not known. */
function sizeOf(inputs: readonly Input[]): number {
  try {
    return inputs.reduce((sum, { path }) => sum + statSync(path === '-' ? '/dev/stdin' : path).size, 0)
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

function tooLate(path: string, late: number, all: number, { latest }: Problems, reorder: number): SluiceError {
  const name = path === '-' ? 'the standard input' : path
  const seconds = Math.ceil(latest / 1000)
  const hint = latest > LONGEST_REORDER ? '' : `, or set --reorder ${seconds}s`
  return new SluiceError(
    'LOG_UNREADABLE',
    `${name}: ${grouped(late)} of ${grouped(all)} requests (${percent(late, all)}) are ${lateText(reorder)}, ` +
      `so the figures would be wrong. Write the log to a file, which is sorted${hint}`,
  )
}

function changed({ path }: Source): SluiceError {
  return new SluiceError('LOG_UNREADABLE', `${path}: the file changed while it was sorted. Copy it, and read the copy`)
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

function summaryOf({ sources, problems, requests, from, until }: Pass, { reorder }: LogSettings): LogSummary {
  if (requests === 0) throw nothingRead(problems)
  for (const { isFile: isSorted, path, late, requests: read } of sources) {
    if (!isSorted && late > MOST_OMITTED * (late + read)) throw tooLate(path, late, late + read, problems, reorder)
  }
  return {
    lines: problems.lines,
    requests,
    from: new Date(from).toISOString(),
    until: new Date(until).toISOString(),
    files: sources.map(({ path, format }) => ({ file: path, format: format.name ?? 'unknown' })),
    unread: problems.unread,
    notes: notesOf(problems, requests, reorder),
  }
}

function notesOf(problems: Problems, requests: number, reorder: number): string[] {
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
