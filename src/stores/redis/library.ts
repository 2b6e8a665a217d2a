import { createHash } from 'node:crypto'
import type { Algorithm } from '../../algorithms/algorithm.ts'
import arithmetic from '../../algorithms/arithmetic.lua?raw'
import { luaOf } from '../../algorithms/lua.ts'
import { TOLERANCE_MS } from '../../util/ticks.ts'
import { MOST_STEPS } from '../../engine/compiled-limit.ts'
import { standardAlgorithms } from '../../engine/all-algorithms.ts'
import adjust from './lua/adjust.lua?raw'
import call from './lua/call.lua?raw'
import decide from './lua/decide.lua?raw'
import entries from './lua/entries.lua?raw'
import register from './lua/library.lua?raw'
import notes from './lua/notes.lua?raw'
import records from './lua/records.lua?raw'
import requests from './lua/requests.lua?raw'
import state from './lua/state.lua?raw'
import { BLOCK_ENTRIES, ENTRY, kindName, RECORD } from './keys.ts'

/** The numbers that Lua shares with TypeScript. */
const NUMBERS = `local TOLERANCE_MS, MOST_STEPS, ENTRY, RECORD, BLOCK_ENTRIES = ${[TOLERANCE_MS, MOST_STEPS, ENTRY, RECORD, BLOCK_ENTRIES].join(', ')}\n`

/** The program that decides, in the two forms in which a server takes it. */
export interface Program {
  /** The name of its function in the library. */
  readonly name: string
  /** The name of the same function for calls that write nothing. */
  readonly peekName: string
  /** The text of the library, which a server builds once. */
  readonly library: string
  /** The text of the script, which a server builds for each call. */
  readonly script: string
  readonly sha: string
}

/**
 * Makes the program of a store that uses these algorithms. The library also has all algorithms of the package: a server keeps each library, so a library
 * for each set of algorithms would fill its memory. The script only has the given algorithms, because a server runs the whole text at each call. The
 * names contain a hash of the text, so that programs of several versions of the package work side by side.
 */
export function programFor(algorithms: readonly Algorithm[]): Program {
  const text = textOf([...standardAlgorithms, ...algorithms])
  const name = `sluice_${sha1(text).slice(0, 16)}`
  const script = `${textOf(algorithms)}\nreturn decide(KEYS, ARGV)\n`
  return { name, peekName: `${name}_peek`, library: libraryOf(name, text), script, sha: sha1(script) }
}

function libraryOf(name: string, text: string): string {
  return `#!lua name=${name}\nlocal NAME = '${name}'\nlocal function build()\n${text}\nreturn decide\nend\n${register}`
}

/**
 * Puts the files in `lua/` around the Lua texts of algorithms.
 *
 * KEYS: for each transaction, one hash for each (limiter, key), and then the hash of the note if the transaction has a receipt.
 *
 * ARGV: `@` and the time in microseconds, if the store has its own clock. Then, for each run of transactions that differ only in their keys: the plan,
 * the number of transactions, for adjustments and locks the units and the time of each charge, and the three numbers of a receipt. If there is only one
 * run, the number of transactions is left out.
 *
 * The reply is a flat list: the time, and then for each transaction 0, or the verdicts of its charges, or an error text.
 */
function textOf(algorithms: readonly Algorithm[]): string {
  const all = algorithms.flatMap((each) => [each, ...(each.compatibleWith ?? [])])
  // Algorithms are equal if their names are: two copies of the package have each algorithm twice.
  const distinct = new Map(all.map((each) => [each.name, each]))
  // The order is fixed, so that all processes share one program.
  const sorted = [...distinct.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const hasEntries = sorted.some((each) => each.entries)
  const parts = [call, hasEntries ? entries : '', records, state, adjust, notes, decide, requests]
  return [arithmetic, kindTable(sorted), NUMBERS, ...parts].join('\n')
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}

/** Returns the algorithms by their names, as a table in Lua. Algorithms with the same text share its functions. */
function kindTable(algorithms: readonly Algorithm[]): string {
  const texts = [...new Set(algorithms.map(luaOf))]
  const loads = texts.map((lua) => `function()\n${lua}\nend,\n`)
  const kinds = algorithms.map((each) => kindOf(each, texts.indexOf(luaOf(each)) + 1))
  return `local loads = {\n${loads.join('')}}\nlocal kinds = {\n${kinds.join('')}}\n`
}

function kindOf(algorithm: Algorithm, load: number): string {
  const { initialState, entries = false, compatibleWith, parameters } = algorithm
  const newest = algorithm.cells.findIndex((cell) => cell.newest) + 1
  const cells = initialState.map((cell) => (cell === -Infinity ? '-huge' : String(cell)))
  const fields = [
    `cells = ${cells.length}, blank = { ${cells.join(', ')} }, entries = ${entries}, load = loads[${load}]`,
    `parameters = { ${parameters.map(quoted).join(', ')} }`,
    ...(newest === 0 ? [] : [`newest = ${newest}, times = { ${timesOf(algorithm)} }`]),
    ...(compatibleWith === undefined ? [] : [`family = ${quoted(familyOf(algorithm))}`]),
    ...(algorithm.renew === undefined ? [] : ['slots = true']),
    ...(entries ? [`format = '<${'d'.repeat(cells.length)}I2I2I4I4'`] : []),
  ]
  return `[${quoted(kindName(algorithm))}] = { ${fields.join(', ')} },\n`
}

/** Returns the cells that are points in time: the place of each, and its ticks, which are 1 or a parameter. */
function timesOf({ cells }: Algorithm): string {
  const times = cells.map(({ ticks }, i) => ticks && `[${i + 1}] = ${ticks === 1 ? 1 : quoted(ticks)}`)
  return times.filter((each) => each !== undefined).join(', ')
}

/** Returns one name for all algorithms that can read the states of each other. */
function familyOf(algorithm: Algorithm): string {
  return [algorithm, ...algorithm.compatibleWith!].map(kindName).toSorted()[0]!
}

/** Returns any text as a constant in Lua. */
function quoted(text: string): string {
  const bytes = [...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`)
  return /^\w*$/.test(text) ? `'${text}'` : `'${bytes.join('')}'`
}
