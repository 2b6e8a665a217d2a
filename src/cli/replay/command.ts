import { statSync, writeFileSync } from 'node:fs'
import type { LogEntry, LoggedRequest } from '../logs/request.ts'
import { allPolicies, type CompiledRules } from '../../rules/dimensions.ts'
import type { PolicyRule } from '../../rules/document.ts'
import { attributeIn } from '../../rules/keys.ts'
import { readLogs, summaryLines } from '../logs/read.ts'
import { type LimitReport, type Replay, replayCompared, replayLimits, replayRules, type Report } from './replay.ts'
import { columns, grouped, type Io, jsonText, percent } from '../print.ts'
import { command, type Command, Misuse, type ValuesOf } from '../command.ts'
import { PREFIX } from '../../stores/redis/keys.ts'
import { LOG_OPTIONS, LOG_USAGE, logSettings, type LogSettings } from '../logs/options.ts'
import { loadRules } from '../rules/command.ts'
import { reasonOf, SluiceError } from '../../util/errors.ts'
import { parseLimit } from './expression.ts'
import type { TallyReport } from './tally.ts'
import { EXACT_HEADINGS, exactCells, htmlOf, KEY_HEADINGS, keyCells, LIMIT_HEADINGS, limitCells } from './html.ts'

/** Finds the headers and attributes that a document needs, but that a log never has. Policies that need them do not apply. */
class MissingFacts {
  readonly #missing: Set<string>

  constructor(rules: CompiledRules) {
    this.#missing = new Set(allPolicies(rules).flatMap(({ rule }) => namesIn(rule)))
  }

  see({ headers, fields }: LoggedRequest): void {
    for (const name of this.#missing) {
      const attribute = attributeIn(name)
      const found =
        attribute === undefined
          ? headers?.[name.slice('header:'.length)] !== undefined
          : fields !== undefined && Object.hasOwn(fields, attribute)
      if (found) this.#missing.delete(name)
    }
  }

  get notes(): string[] {
    if (this.#missing.size === 0) return []
    return [`the rules use ${[...this.#missing].join(', ')}, which no request of the log has`]
  }
}

/** Returns the headers and attributes of a policy, written as in a key. */
function namesIn({ match = {}, key = [], cost }: PolicyRule): string[] {
  const headers = Object.keys(match.header ?? {}).map((name) => `header:${name}`)
  const attributes = [...Object.keys(match.attributes ?? {}), ...(typeof cost === 'string' ? [cost] : [])]
  return [...headers, ...attributes.map((name) => `attribute:${name}`), ...[key].flat()]
    .filter((name) => name.includes(':'))
    .map((name) => (name.startsWith('header:') ? name.toLowerCase() : name))
}

const NUMBERS = new Set([1, 2, 3, 4, 5, 6, 7])

function printed(report: Report): string {
  const { log, decisions, limits, notes } = report
  const head = [...summaryLines(log), ...notes.map((note) => `note: ${note}`)]
  const table = limitTable(limits)
  // For a comparison, the table comes first: lists of keys would push it off the screen.
  const first = decisions === undefined ? [...table, '', ...head] : [...head, '', overall(decisions), '', ...table]
  return [...first, ...limits.flatMap(hardestTable), ''].join('\n')
}

function overall({ admitted, denied, requests }: TallyReport): string {
  return `${grouped(admitted)} requests admitted, ${grouped(denied)} denied (${percent(denied, requests)})`
}

function limitTable(limits: readonly LimitReport[]): string[] {
  const isCompared = limits.some(({ exact }) => exact !== undefined)
  const rows = limits.map((each) => [...limitCells(each), ...(isCompared ? exactCells(each) : [])])
  return columns([[...LIMIT_HEADINGS, ...(isCompared ? EXACT_HEADINGS : [])], ...rows], NUMBERS)
}

function hardestTable(report: LimitReport): string[] {
  if (report.hardest.length === 0) return []
  return ['', `most denied by ${report.limit}`, ...columns([KEY_HEADINGS, ...keyCells(report)], new Set([1, 2]))]
}

const USAGE = `Usage: sluice replay <log> … --limit <limit> …   shows what a server would have decided for the requests of a log
       sluice replay <log> … --rules <document>

  --limit <limit>      the algorithm, the quota and the window, options and filters: 'gcra 100/1m burst=20 path=/login method=POST';
                       several limits decide in one transaction
  --compare            replays each --limit by itself, and counts the decisions that differ from an exact log of its window;
                       with one --limit, compares every algorithm
  --rules <document>   a file of rules, or the URL of a Redis with rules
  --html <file>        writes a page with plots
  --json               prints JSON

${LOG_USAGE}`

const OPTIONS = {
  ...LOG_OPTIONS,
  limit: { type: 'string', multiple: true },
  compare: { type: 'boolean', default: false },
  rules: { type: 'string' },
  html: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

type Values = ValuesOf<typeof OPTIONS>

export const replayCommand: Command = command(USAGE, OPTIONS, async (logs, values, { stdin }) => {
  if (logs.length === 0) throw new Misuse('expected a log')
  const report = await replayed(logs, values, stdin)
  if (values.html !== undefined) writeFileSync(values.html, htmlOf(report))
  return { text: values.json ? jsonText(report) : printed(report) }
})

async function replayed(paths: readonly string[], values: Values, stdin: Io['stdin']): Promise<Report> {
  refuseTogether(values)
  refuseOverwriting(paths, values)
  const options = logSettings(values, values.rules !== undefined, stdin)
  const rules = values.rules === undefined ? undefined : await loadRules(values.rules, PLACE, options)
  let replay!: Replay
  let missing: MissingFacts | undefined
  const log = await readLogs(paths, options, () => {
    replay = replayOf(values, rules, options)
    missing = rules && new MissingFacts(rules)
    return (entry, file) => {
      missing?.see(entry.request)
      decide(replay, entry, file)
    }
  })
  const { notes, ...report } = replay.report()
  return { log, ...report, notes: [...notes, ...(missing?.notes ?? [])] }
}

/** Names the line of a request that a server would not decide, such as one with an object as its key. */
function decide(replay: Replay, entry: LogEntry, file: string): void {
  try {
    replay.decide(entry)
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    throw new SluiceError(error.code, `${file}:${entry.line}: ${reasonOf(error)}`, { cause: error })
  }
}

const PLACE = { name: 'rules', prefix: PREFIX }

function refuseTogether({ rules, limit = [], compare, key }: Values): void {
  if ((rules === undefined) === (limit.length === 0)) throw new Misuse('expected --limit or --rules, and not both')
  if (rules !== undefined && (compare || key !== undefined))
    throw new Misuse('expected no --compare and no --key with --rules, which have their own keys')
}

/** The page must not be written to a file that is read: a log would be lost. */
function refuseOverwriting(paths: readonly string[], { rules, html }: Values): void {
  if (html === undefined) return
  const read = new Set([...paths, rules ?? ''].flatMap(placeOf))
  if (placeOf(html).some((each) => read.has(each))) throw new Misuse(`--html: ${html} is a file that is read`)
}

/** Returns where a file is, whatever its name is. Returns nothing for a file that does not exist, a pipe and a device. */
function placeOf(path: string): string[] {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() ? [`${found.dev} ${found.ino}`] : []
}

function replayOf({ limit = [], compare }: Values, rules: CompiledRules | undefined, options: LogSettings): Replay {
  if (rules !== undefined) return replayRules(rules, options)
  const expressions = limit.map(parseLimit)
  return compare ? replayCompared(expressions, options) : replayLimits(expressions, options)
}
