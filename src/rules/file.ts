import type * as Fs from 'node:fs'
import type * as Path from 'node:path'
import type * as Url from 'node:url'
import { inFile, type ParsedText, problem, type RulesProblem } from './document.ts'
import { type RulesFeed, type SourceOptions, startRules } from './start.ts'
import { decode, formatOf, LARGEST, parseText, requireYaml, type RulesFormat, tooLarge } from './text.ts'
import { builtin } from '../util/builtin.ts'
import { SluiceError } from '../util/errors.ts'
import type { Duration } from '../engine/limit.ts'
import { milliseconds, refuse, ownOptions } from '../util/validate.ts'
import type { Rules } from './rules.ts'

const fs = builtin('node:fs') as typeof Fs | undefined
const { promises, watch } = fs ?? ({} as typeof Fs)

/** Milliseconds without a change after which a file is taken as written. */
const SETTLED = 200
/** Milliseconds after which a file with mistakes, or none, is reported: it may be half-written. */
const PATIENCE = 1000
/** Milliseconds in which the events of one change arrive. */
const GATHER = 20

interface Look {
  readonly text?: string
  /** Why its content is no text of rules. */
  readonly refused?: ParsedText
  /** Why it could not be read. */
  readonly error?: NodeJS.ErrnoException
  /** The time of the last write, in epoch milliseconds. */
  readonly written: number
}

/** A look that differs from what was reported last. It is reported once it has lasted. */
interface Candidate {
  readonly look: Look
  readonly since: number
  /** The mistakes of its document, which applies if it has none. `undefined` without a text. */
  problems?: readonly RulesProblem[] | undefined
}

/**
 * Watches one file by its content. It reads the file when the system reports a change in its directory, and regularly, since not
 * every system reports every change. So it needs to know nothing about the ways in which files are replaced.
 */
class FileWatch {
  readonly #path: string
  readonly #format: RulesFormat
  readonly #interval: number
  readonly #feed: RulesFeed
  readonly #directory: DirectoryWatch
  #reported: Look | undefined
  #candidate: Candidate | undefined
  #timer: NodeJS.Timeout | undefined
  #isStopped = false
  #isLooking = false
  #changedMeanwhile = false

  constructor(path: string, format: RulesFormat, interval: number, feed: RulesFeed) {
    this.#path = path
    this.#format = format
    this.#interval = interval
    this.#feed = feed
    this.#directory = new DirectoryWatch((builtin('node:path') as typeof Path).dirname(path), () => this.#notice())
  }

  start(): void {
    void this.#look()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#directory.close()
  }

  #notice(): void {
    if (this.#isLooking) this.#changedMeanwhile = true
    else this.#lookIn(GATHER)
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#isStopped) return
    this.#timer = setTimeout(() => void this.#look(), ms)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    this.#isLooking = true
    this.#changedMeanwhile = false
    await this.#directory.renew()
    const wait = await this.#consider(await lookAt(this.#path, this.#format))
    this.#isLooking = false
    this.#lookIn(this.#changedMeanwhile ? Math.min(GATHER, wait) : wait)
  }

  /** Reports what has lasted long enough. Returns the milliseconds until the next look. */
  async #consider(look: Look): Promise<number> {
    if (this.#isStopped || (this.#reported !== undefined && isSame(look, this.#reported))) {
      this.#candidate = undefined
      return this.#interval
    }
    const candidate = this.#candidateOf(look)
    const age = Date.now() - candidate.since
    if (age >= 0 && age < SETTLED) return SETTLED - age
    candidate.problems ??= await this.#apply(look)
    if (this.#isStopped) return this.#interval
    return this.#report(candidate, age)
  }

  /** Applies the document of a text. Returns its mistakes. */
  async #apply({ text, refused }: Look): Promise<readonly RulesProblem[] | undefined> {
    const parsed = text === undefined ? refused : await parseText(text, this.#format)
    if (parsed === undefined || 'problems' in parsed) return parsed?.problems
    const problems = this.#feed.document(parsed.value)
    return problems.length === 0 ? problems : parsed.located(problems)
  }

  #candidateOf(look: Look): Candidate {
    if (this.#candidate === undefined || !isSame(look, this.#candidate.look)) {
      // Before the first report, a file that was written long ago is complete.
      this.#candidate = { look, since: this.#reported === undefined ? look.written : Date.now() }
    }
    return this.#candidate
  }

  #report({ look, problems }: Candidate, age: number): number {
    const isGood = problems?.length === 0
    if (!isGood && age >= 0 && age < PATIENCE) return PATIENCE - age
    this.#reported = look
    this.#candidate = undefined
    if (problems === undefined) this.#feed.unreachable(look.error)
    else if (!isGood) this.#feed.invalid(inFile(this.#path, problems))
    return this.#interval
  }
}

function isSame(one: Look, other: Look): boolean {
  return one.text === other.text && one.error?.code === other.error?.code && one.refused === other.refused
}

async function lookAt(path: string, format: RulesFormat): Promise<Look> {
  try {
    // A pipe would block `open`.
    const found = await promises.stat(path)
    const written = found.mtimeMs
    if (!found.isFile()) return { error: new Error(`${path} is not a file`), written: 0 }
    if (found.size > LARGEST[format]) return { refused: TOO_LARGE[format], written }
    const text = decode(await contentOf(path))
    return text === undefined ? { refused: NO_TEXT, written } : { text, written }
  } catch (error) {
    return { error: error as Error, written: 0 }
  }
}

async function contentOf(path: string): Promise<Buffer> {
  const handle = await promises.open(path)
  try {
    return await handle.readFile()
  } finally {
    await handle.close()
  }
}

const NO_TEXT: ParsedText = problem('expected a text in UTF-8')
const TOO_LARGE: Readonly<Record<RulesFormat, ParsedText>> = { json: tooLarge('json'), yaml: tooLarge('yaml') }

/** Calls `notice` when a directory changes, where the system reports it. */
class DirectoryWatch {
  readonly #path: string
  readonly #notice: () => void
  #watcher: Fs.FSWatcher | undefined
  #watched = ''
  #isClosed = false

  constructor(path: string, notice: () => void) {
    this.#path = path
    this.#notice = notice
  }

  /** Watches the directory that is at the path now, which may be another than before. */
  async renew(): Promise<void> {
    const found = await promises.stat(this.#path).catch(() => undefined)
    const identity = found === undefined ? '' : `${found.dev}:${found.ino}:${found.birthtimeMs}`
    if (this.#isClosed || (identity === this.#watched && this.#watcher !== undefined)) return
    this.#end()
    if (found !== undefined) this.#begin(identity)
  }

  close(): void {
    this.#isClosed = true
    this.#end()
  }

  #begin(identity: string): void {
    try {
      const watcher = watch(this.#path, { persistent: false }, this.#notice)
      watcher.on('error', () => this.#end())
      this.#watcher = watcher
      this.#watched = identity
    } catch {
      // Without watches, such as where the system has too many, the regular look is left.
    }
  }

  #end(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }
}

/** Options of `rulesFromFile`. */
export interface FileOptions<Input> extends SourceOptions<Input> {
  /**
   * How often the file is read again where the system does not report changes, such as on a network drive. Default `'2s'`. It is
   * also how soon another target of a link elsewhere, or a replaced directory, is noticed.
   */
  readonly pollInterval?: Duration
}

/**
 * Rules from a file: JSON if its name ends in `.json`, YAML if it ends in `.yaml` or `.yml`. A change takes effect about 0.2
 * seconds after the last write: a rename over the file, a write in place, a file that is deleted and made again, a link to another
 * file. A file with mistakes, or none, is reported after 1 second, and the current rules stay.
 *
 * Replace the file by a rename. A file that is written in place and pauses for longer is read half-written.
 *
 * The watch does not keep the process running. `rules.close()` ends it.
 *
 * Rejects with `INVALID_RULES` or `RULES_UNREACHABLE` if there are no rules at the start and no `fallback`, `INVALID_OPTION`,
 * `UNKNOWN_OPTION`, and `MISSING_PACKAGE` for YAML where the package `yaml` is not installed, even with a `fallback`. Throws
 * `NOT_APPLICABLE` in a runtime without files, such as a Worker. JSON may have
 * 1 MiB, YAML 128 KiB.
 * @example
 * const rules = await rulesFromFile('rules.yaml', {
 *   attributes: (request: express.Request) => ({ tenant: request.get('x-tenant') }),
 * })
 * app.use(rateLimit({ rules, store }))
 */
export async function rulesFromFile<Input = unknown>(
  path: string | URL,
  options: FileOptions<Input> = {},
): Promise<Rules<Input>> {
  if (fs === undefined)
    throw new SluiceError(
      'NOT_APPLICABLE',
      'rulesFromFile needs files, and this runtime has none. Use createRules or rulesFrom',
    )
  const file = path instanceof URL ? (builtin('node:url') as typeof Url).fileURLToPath(path) : path
  const format = typeof file === 'string' ? formatOf(file) : undefined
  if (format === undefined) refuse('rulesFromFile', 'the name of a file that ends in .json, .yaml or .yml', path)
  const { pollInterval = '2s', ...rest } = ownOptions(options)
  const interval = milliseconds('pollInterval', pollInterval)
  if (format === 'yaml') await requireYaml()
  return startRules(rest, (feed) => {
    const watch = new FileWatch(file, format, interval, feed)
    watch.start()
    return () => watch.stop()
  })
}
