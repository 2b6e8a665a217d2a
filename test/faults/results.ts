import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { formatted } from '../../build/format.mjs'
import type { Figures, Options } from '../support/faults/experiment.ts'
import { faults } from '../support/faults/faults.ts'
import type { PlaceKind } from '../support/faults/place.ts'
import { defaultFamilies } from '../support/redis-clients.ts'

/** What is kept of an experiment. */
type Row = Figures & { readonly fault: string; readonly client: string; readonly kind: PlaceKind }

export const PLACES: readonly { readonly kind: PlaceKind; readonly title: string }[] = [
  { kind: 'single', title: 'One Redis' },
  { kind: 'cluster', title: 'One server of a cluster' },
]

const BEGIN = '<!-- results: written by `npm run faults` -->'
const END = '<!-- /results -->'
const file = fileURLToPath(new URL('latest.json', import.meta.url))
const page = fileURLToPath(new URL('../../docs/internals/outages.md', import.meta.url))

const added: Row[] = []

/** Keeps the figures of an experiment until `write`. */
export function add({ fault, family, kind }: Options, figures: Figures): void {
  added.push({ fault: fault.name, client: family.name, kind, ...figures })
}

/** Writes what was added to the file of results, and the tables of all results into the page. */
export async function write(): Promise<void> {
  const { rows: known } = readResults()
  const rows = [...known.filter((row) => !added.some((other) => placeOf(other) === placeOf(row))), ...added]
  const when = new Date().toISOString().slice(0, 10)
  const machine = `${when}, Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`
  writeFileSync(file, textOf({ machine, rows: rows.map(rounded) }))
  writeFileSync(page, await pageOf(readFileSync(page, 'utf8'), readResults()))
}

/** The content of the file of results. */
export interface Results {
  readonly machine: string
  readonly rows: readonly Row[]
}

/** Returns the results as JSON with a line for each experiment. */
function textOf({ machine, rows }: Results): string {
  const lines = rows.map((row) => `    ${JSON.stringify(row)}`)
  return `{\n  "machine": ${JSON.stringify(machine)},\n  "rows": [\n${lines.join(',\n')}\n  ]\n}\n`
}

/** Reads the file of results. */
export function readResults(): Results {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Results) : { machine: '', rows: [] }
}

/** Returns the page with tables of these results. */
export async function pageOf(text: string, { machine, rows }: Results): Promise<string> {
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)]
  if (begin === -1 || end < begin)
    throw new Error(`docs/internals/outages.md: expected the markers ${BEGIN} and ${END}`)
  const tables = PLACES.map(({ kind, title }) => `### ${title}\n\n${tableOf(rows.filter((row) => row.kind === kind))}`)
  const results = [`${machine}. Times are in milliseconds.`, ...tables].join('\n\n')
  return formatted(`${text.slice(0, begin + BEGIN.length)}\n\n${results}\n\n${text.slice(end)}`, page)
}

function placeOf({ fault, client, kind }: Row): string {
  return [fault, client, kind].join()
}

/** Writes a file in the format of the repository. */
export async function writeFormatted(path: string, text: string): Promise<void> {
  writeFileSync(path, await formatted(text, path))
}

function rounded(row: Row): Row {
  const { first, later, latest, recovery } = row
  return { ...row, first: digits(first)!, later: digits(later), latest: digits(latest), recovery: digits(recovery) }
}

function digits(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Number(ms.toPrecision(3))
}

const clients = defaultFamilies.map(({ name }) => name)
const HEAD = ['fault', 'first', 'later', 'admitted', 'refunded', 'charged later', 'left behind', ...clients]

/** A line for each fault: the worst of all clients, and the time to recover of each. */
function tableOf(rows: readonly Row[]): string {
  const named = faults.map(({ name }) => [name, rows.filter(({ fault }) => fault === name)] as const)
  const lines = named.filter(([, own]) => own.length > 0).map(([name, own]) => lineOf(name, own))
  return [HEAD, HEAD.map((_, i) => (i === 0 ? '---' : '---:')), ...lines].map(lineText).join('\n')
}

function lineText(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}

function lineOf(name: string, rows: readonly Row[]): string[] {
  const isOut = rows.some(({ degraded }) => degraded > 0)
  const kept = most(rows, 'kept')
  return [
    name,
    msText(most(rows, 'first')),
    isOut ? msText(most(rows, 'latest')) : '–',
    `${most(rows, 'admitted')} of ${most(rows, 'allowance')}`,
    kept === 0 ? 'all' : `all but ${kept} of ${rows.find((row) => row.kept === kept)?.handed}`,
    String(most(rows, 'charged')),
    String(rows.reduce((sum, { leaks, rejections, errors }) => sum + leaks.length + rejections + errors.length, 0)),
    ...clients.map((client) => recoveryText(rows.find((row) => row.client === client))),
  ]
}

type Count = 'first' | 'latest' | 'kept' | 'admitted' | 'allowance' | 'charged'

/** JSON has no `Infinity` and writes `null`. */
function most(rows: readonly Row[], name: Count): number {
  return Math.max(...rows.map((row) => (row[name] === null ? Infinity : (row[name] ?? 0))))
}

function recoveryText(row: Row | undefined): string {
  if (row === undefined) return 'not measured'
  if (row.recovery === undefined) return '–'
  return Number.isFinite(row.recovery) ? msText(row.recovery) : 'no'
}

function msText(ms: number): string {
  return ms < 10 ? ms.toFixed(2) : String(Math.round(ms))
}
