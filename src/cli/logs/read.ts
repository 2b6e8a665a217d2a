import { statSync } from 'node:fs'
import { SluiceError } from '../../util/errors.ts'
import type { LogEntry } from './entry.ts'
import type { LogSettings } from './options.ts'
import { Problems } from './problems.ts'
import { openProgress } from './progress.ts'
import { Source } from './source.ts'

/** What was read of logs. */
export interface ReadLogs {
  readonly problems: Problems
  readonly requests: number
  /** Epoch milliseconds of the first and the last request. */
  readonly from: number
  readonly until: number
  readonly formats: readonly (readonly [file: string, format: string])[]
}

const MOST_FILES = 1000

/**
 * Reads all files at once and passes their entries on in the order of their times, so that rotated files, and files of several servers,
 * can be given in any order. Throws `LOG_UNREADABLE` for a file that cannot be read, and if there is no line that can be.
 */
export async function readLogs(
  paths: readonly string[],
  options: LogSettings,
  each: (entry: LogEntry, file: string) => void,
): Promise<ReadLogs> {
  if (paths.length > MOST_FILES) throw new SluiceError('INVALID_OPTION', `expected at most ${MOST_FILES} files`)
  const problems = new Problems()
  const progress = openProgress(sizeOf(paths))
  const sources = paths.map((path) => new Source(path, options, problems, progress.add))
  let [requests, from, until] = [0, NaN, NaN]
  try {
    await merge(sources, (entry, file) => {
      until = entry.request.time
      if (requests++ === 0) from = until
      each(entry, file)
    })
  } finally {
    progress.close()
  }
  if (requests === 0) throw nothingRead(problems)
  const formats = sources.map(({ path, format }) => [path, format.name ?? 'unknown'] as const)
  return { problems, requests, from, until, formats }
}

async function merge(sources: readonly Source[], each: (entry: LogEntry, file: string) => void): Promise<void> {
  let open: Source[] = []
  for (const source of sources) if (await source.fill()) open.push(source)
  while (open.length > 0) {
    const first = earliest(open)
    const limit = timeOfSecond(open, first)
    for (let entry = first.next; entry !== undefined && entry.request.time <= limit; entry = first.next) {
      first.take()
      each(entry, first.path)
    }
    if (first.next === undefined && !(await first.fill())) open = open.filter((each) => each !== first)
  }
}

/** Returns the source with the earliest entry, the first of equal ones. */
function earliest(sources: readonly Source[]): Source {
  let found = sources[0]!
  for (const source of sources) if (source.next!.request.time < found.next!.request.time) found = source
  return found
}

/** Returns the time until which one source is earlier than all others. */
function timeOfSecond(sources: readonly Source[], first: Source): number {
  let time = Infinity
  for (const source of sources) if (source !== first) time = Math.min(time, source.next!.request.time)
  return time
}

/** Returns the bytes of all files, 0 if they are not known. */
function sizeOf(paths: readonly string[]): number {
  try {
    return paths.reduce((sum, path) => sum + statSync(path === '-' ? '/dev/stdin' : path).size, 0)
  } catch {
    return 0
  }
}

function nothingRead({ lines, unread }: Problems): SluiceError {
  if (lines === 0) return new SluiceError('LOG_UNREADABLE', 'the log is empty')
  const reasons = unread.map((each) => `${each.lines} ${each.reason}`).join(', ')
  const hint = 'Set --format, or --time for JSON lines of another program'
  return new SluiceError('LOG_UNREADABLE', `none of ${lines} lines can be read: ${reasons}. ${hint}`)
}
