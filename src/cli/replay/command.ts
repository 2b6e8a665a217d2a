import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { RulesDocument } from '../../rules/document.ts'
import { PREFIX } from '../../stores/redis/keys.ts'
import { SluiceError } from '../../util/errors.ts'
import { LOG_OPTIONS, LOG_USAGE, logSettings, type LogSettings } from '../logs/options.ts'
import { type EachEntry, readLogs } from '../logs/read.ts'
import { summaryOf } from '../logs/summary.ts'
import type { Outcome } from '../outcome.ts'
import { loadDocument } from '../rules/load.ts'
import { openDecisions } from './decisions-file.ts'
import { parseLimit } from './expression.ts'
import { htmlOf } from './html.ts'
import { MissingFacts } from './missing.ts'
import { printed } from './print.ts'
import { type Replay, replayCompared, replayLimits, replayRules } from './replay.ts'
import type { Report } from './report.ts'

const USAGE = `Usage: sluice replay <log> … --limit <limit> …   shows what a server would have decided for the requests of a log
       sluice replay <log> … --rules <document>

  --limit <limit>      the algorithm, the quota and the window, options and filters: 'gcra 100/1m burst=20 path=/login method=POST';
                       several limits decide in one transaction
  --compare            replays each --limit by itself, and counts the decisions that differ from an exact log of its window;
                       with one --limit, compares every algorithm
  --rules <document>   a file of rules, or the URL of a Redis with rules
  --decisions <file>   writes every decision as a line of JSON
  --html <file>        writes a page with plots
  --json               prints JSON

${LOG_USAGE}`

const OPTIONS = {
  ...LOG_OPTIONS,
  limit: { type: 'string', multiple: true },
  compare: { type: 'boolean', default: false },
  rules: { type: 'string' },
  decisions: { type: 'string' },
  html: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>['values']

/** Runs `sluice replay …`. */
export async function replayCommand(args: readonly string[]): Promise<Outcome> {
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS })
  if (values.help) return { text: USAGE }
  if (positionals.length === 0) throw misuse('a log')
  const report = await replayed(positionals, values)
  if (values.html !== undefined) writeFileSync(values.html, htmlOf(report))
  return { text: values.json ? `${JSON.stringify(report, undefined, 2)}\n` : printed(report) }
}

async function replayed(paths: readonly string[], values: Values): Promise<Report> {
  const document = await documentOf(values)
  const options = logSettings(values, document !== undefined)
  let replay = replayOf(values, document, options)
  let missing = document && new MissingFacts(document)
  const decisions = values.decisions === undefined ? undefined : openDecisions(values.decisions)
  try {
    const begin = (): EachEntry => {
      replay = replayOf(values, document, options)
      missing = document && new MissingFacts(document)
      decisions?.clear()
      return (entry, file) => {
        missing?.see(entry.request)
        const { allowed, limits } = replay.decide(entry)
        decisions?.add(entry, file, allowed, limits)
      }
    }
    const read = await readLogs(paths, options, begin, decisions?.isFile === false)
    const { notes, ...report } = replay.report()
    return { log: summaryOf(read, options), ...report, notes: [...notes, ...(missing?.notes ?? [])] }
  } finally {
    decisions?.close()
  }
}

async function documentOf({ rules, limit = [], compare, key }: Values): Promise<RulesDocument | undefined> {
  if ((rules === undefined) === (limit.length === 0)) throw misuse('--limit or --rules, and not both')
  if (rules === undefined) return undefined
  if (compare || key !== undefined) throw misuse('no --compare and no --key with --rules, which have their own keys')
  return loadDocument(rules, { name: 'rules', prefix: PREFIX, client: undefined })
}

function replayOf(
  { limit = [], compare, cost }: Values,
  document: RulesDocument | undefined,
  options: LogSettings,
): Replay {
  if (document !== undefined) return replayRules(document, options)
  const expressions = limit.map(parseLimit)
  const hasCosts = cost !== undefined
  return compare ? replayCompared(expressions, options, hasCosts) : replayLimits(expressions, options, hasCosts)
}

function misuse(expected: string): SluiceError {
  return new SluiceError('INVALID_OPTION', `expected ${expected}\n\n${USAGE}`)
}
