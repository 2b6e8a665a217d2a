import type * as Fs from 'node:fs'
import type * as Url from 'node:url'
import { inFile, refusal, type RulesProblem } from './document.ts'
import { repeatedLooks } from './looks.ts'
import { type RulesFeed, type SourceOptions, sourceOptions, startRules } from './start.ts'
import { decode, formatOf, LARGEST, parseText, type RulesFormat, tooLarge } from './text.ts'
import { builtin } from '../util/builtin.ts'
import { SluiceError } from '../util/errors.ts'
import type { Duration } from '../engine/limit.ts'
import { milliseconds, refuse } from '../util/validate.ts'
import type { Rules } from './rules.ts'

const fs = builtin('node:fs') as typeof Fs | undefined
const { promises } = fs ?? ({} as typeof Fs)

/** Milliseconds without a change after which a file counts as complete. */
const SETTLED = 200
/** Milliseconds after which a file with mistakes, or a missing file, is reported. Before that, it may be incomplete. */
const PATIENCE = 1000

interface Look {
  readonly text?: string
  /** The problem, if the content is not a text of rules. */
  readonly refused?: readonly RulesProblem[]
  /** The error, if the file could not be read. */
  readonly error?: NodeJS.ErrnoException
  /** The time of the last write, in epoch milliseconds. */
  readonly written: number
}

/** A look that differs from the last reported one. It is reported if it does not change for some time. */
interface Candidate {
  readonly look: Look
  readonly since: number
  /** The mistakes of its document. If there are none, the document was applied. `undefined` without a text. */
  problems?: readonly RulesProblem[] | undefined
}

/**
 * Watches one file by its content: reads it again and again, so that all ways to replace a file work, on every system. Returns a function that ends
 * this.
 */
function watchFile(path: string, format: RulesFormat, interval: number, feed: RulesFeed): () => void {
  let reported: Look | undefined
  let candidate: Candidate | undefined

  /** Reports a look that has not changed for long enough. Returns the milliseconds until the next look. */
  async function consider(look: Look): Promise<number> {
    if (reported !== undefined && isSame(look, reported)) {
      candidate = undefined
      return interval
    }
    if (candidate === undefined || !isSame(look, candidate.look)) {
      // Before the first report, a file that was written long ago is complete.
      candidate = { look, since: reported === undefined ? look.written : Date.now() }
    }
    const age = Date.now() - candidate.since
    if (age >= 0 && age < SETTLED) return SETTLED - age
    candidate.problems ??= await apply(look)
    const { problems } = candidate
    const isGood = problems?.length === 0
    if (!isGood && age >= 0 && age < PATIENCE) return PATIENCE - age
    reported = look
    candidate = undefined
    if (problems === undefined) feed.unreachable(look.error)
    else if (!isGood) feed.invalid(inFile(path, problems))
    return interval
  }

  /** Applies the document of a text. Returns its mistakes. */
  async function apply({ text, refused }: Look): Promise<readonly RulesProblem[] | undefined> {
    if (text === undefined) return refused
    const parsed = await parseText(text, format)
    if ('problems' in parsed) return parsed.problems
    const problems = feed.document(parsed.value)
    return problems.length === 0 ? problems : parsed.located(problems)
  }

  return repeatedLooks(async () => consider(await lookAt(path, format))).stop
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
    const text = decode(await promises.readFile(path))
    return text === undefined ? { refused: NO_TEXT, written } : { text, written }
  } catch (error) {
    return { error: error as Error, written: 0 }
  }
}

const NO_TEXT = refusal('expected a text in UTF-8')
const TOO_LARGE = { json: tooLarge('json'), yaml: tooLarge('yaml') }

/** Options of `rulesFromFile`. */
export interface FileOptions<Input> extends SourceOptions<Input> {
  /** How often the file is read. Default `'500ms'`. */
  readonly pollInterval?: Duration
}

/**
 * Rules from a file: JSON if its name ends in `.json`, YAML if it ends in `.yaml` or `.yml`. A change takes effect within a second.
 * The file can be replaced by a rename, written in place, deleted and created again, or a link can change. A file with mistakes, or a missing file, is
 * reported after 1 second, and the current rules stay.
 *
 * Replace the file by a rename. If a file is written in place with a longer pause, an incomplete file is read.
 *
 * The watch does not keep the process running. `rules.close()` ends it.
 *
 * Rejects with `INVALID_RULES` or `RULES_UNREACHABLE` if there are no rules at the start and no `fallback`, `INVALID_OPTION`,
 * `UNKNOWN_OPTION`, and `MISSING_PACKAGE` for YAML if the package `yaml` is not installed, even with a `fallback`. Throws
 * `NOT_APPLICABLE` in a runtime without files, such as a Worker. A JSON file may have 1 MiB, a YAML file 128 KiB.
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
  options = sourceOptions('rulesFromFile', options, 'pollInterval')
  const { pollInterval = '500ms' } = options
  const interval = milliseconds('pollInterval', pollInterval)
  // A missing parser of YAML is an error at once.
  await parseText('', format)
  return startRules(options, (feed) => watchFile(file, format, interval, feed))
}
