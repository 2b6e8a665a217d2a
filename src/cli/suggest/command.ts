import { parseArgs } from 'node:util'
import { SluiceError } from '../../util/errors.ts'
import { LOG_OPTIONS, LOG_USAGE, logSettings } from '../logs/options.ts'
import { readLogs } from '../logs/read.ts'
import { type LogSummary, summaryLines, summaryOf } from '../logs/summary.ts'
import type { Outcome } from '../outcome.ts'
import { columns, grouped, percent } from '../table.ts'
import { Activity } from './activity.ts'
import { figuresOf, type Percentiles, type WindowFigures } from './figures.ts'

const USAGE = `Usage: sluice suggest <log> …   shows how many requests clients send, and what some quotas would deny

  --json               prints JSON

${LOG_USAGE}`

const OPTIONS = {
  ...LOG_OPTIONS,
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** What `sluice suggest` prints. */
export interface Suggestion {
  readonly log: LogSummary
  readonly keys: number
  /** Requests of keys beyond `--max-keys`, which are not counted. */
  readonly dropped: number
  readonly windows: readonly WindowFigures[]
}

/** Runs `sluice suggest …`. */
export async function suggestCommand(args: readonly string[]): Promise<Outcome> {
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS })
  if (values.help) return { text: USAGE }
  if (positionals.length === 0) throw new SluiceError('INVALID_OPTION', `expected a log\n\n${USAGE}`)
  const options = logSettings(values, false)
  let activity = new Activity(options.maxKeys)
  const read = await readLogs(positionals, options, () => {
    activity = new Activity(options.maxKeys)
    return ({ key, request, cost }) => activity.add(key, request.time, cost)
  })
  const windows = activity.finish().map(figuresOf)
  const log = summaryOf(read, options)
  const found: Suggestion = { log, keys: activity.keys, dropped: activity.dropped, windows }
  if (values.json) return { text: `${JSON.stringify(found, undefined, 2)}\n` }
  return { text: `${printed(found, values.cost !== undefined).join('\n')}\n` }
}

function printed({ log, keys, dropped, windows }: Suggestion, hasCosts: boolean): string[] {
  const units = hasCosts ? 'units' : 'requests'
  const beyond = `note: ${grouped(dropped)} requests of keys beyond --max-keys are not counted`
  return [
    ...summaryLines(log),
    `${grouped(keys)} keys`,
    ...(dropped > 0 ? [beyond] : []),
    '',
    `${units} per key, in its busiest window`,
    ...percentileTable(windows.map(({ window, perKey }) => [window, perKey])),
    '',
    `${units} per key and window, in windows with at least one request`,
    ...percentileTable(windows.map(({ window, perKeyWindow }) => [window, perKeyWindow])),
    '',
    'what a quota would have denied, in windows on the clock',
    ...candidateTable(windows, keys, hasCosts),
  ]
}

const NUMBERS = new Set([1, 2, 3, 4, 5])

function percentileTable(rows: readonly (readonly [string, Percentiles])[]): string[] {
  const cells = rows.map(([window, { p50, p90, p99, p999, max }]) => [
    window,
    ...[p50, p90, p99, p999, max].map(grouped),
  ])
  return columns([['window', '50 %', '90 %', '99 %', '99.9 %', 'most'], ...cells], NUMBERS)
}

function candidateTable(windows: readonly WindowFigures[], keys: number, hasCosts: boolean): string[] {
  const rows = windows.flatMap(({ window, candidates }) =>
    candidates.map(({ quota, denied, keysDenied }) => [
      `fixedWindow ${quota}/${window} anchor=clock`,
      grouped(denied),
      grouped(keysDenied),
      percent(keysDenied, keys),
    ]),
  )
  return columns([['limit', hasCosts ? 'units denied' : 'requests denied', 'keys denied', ''], ...rows], NUMBERS)
}
