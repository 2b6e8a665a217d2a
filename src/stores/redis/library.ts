import { createHash } from 'node:crypto'
import type { Algorithm } from '../../algorithms/algorithm.ts'
import { luaPrelude } from '../../algorithms/arithmetic.ts'
import { luaOf } from '../../algorithms/lua.ts'
import { luaLockLength } from '../../engine/compiled-limit.ts'
import { luaAdjust, luaReset } from './lua/adjust.ts'
import { luaClockFault, luaState } from './lua/state.ts'
import { luaDecide } from './lua/decide.ts'
import { luaEdits, luaEntries } from './lua/entries.ts'
import { luaNames, luaRecords } from './lua/records.ts'
import { luaKinds, luaReply, luaRequests } from './lua/requests.ts'
import { kindName } from './keys.ts'

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
 * Makes the program for a set of algorithms: the files in `lua/` around their Lua texts. The names hold a hash of the text, so that
 * programs of several versions of the package work side by side.
 *
 * KEYS: for each transaction its hashes, one for each (limiter, key).
 *
 * ARGV: `@` and the time in microseconds, if it is by a clock of our own; then for each run of transactions that differ in their keys
 * alone its plan, how many they are, and for adjustments and locks the units and the time of each charge. A run that is the only one needs no
 * number.
 *
 * The reply is flat: the time, then for each transaction 0, or what its charges came to, or what went wrong.
 */
export function programFor(algorithms: readonly Algorithm[]): Program {
  const all = algorithms.flatMap((each) => [each, ...(each.compatibleWith ?? [])])
  // By name: two copies of the package have one algorithm twice.
  const distinct = new Map(all.map((each) => [each.name, each]))
  // In one order, whichever a process met first: all processes share one program.
  const sorted = [...distinct.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const text = [
    luaPrelude,
    luaKindTable(sorted),
    luaKinds,
    sorted.some(({ entries }) => entries) ? luaEntries + luaEdits : '',
    luaClockFault,
    luaNames,
    luaRecords,
    luaState,
    luaReply,
    luaLockLength,
    luaAdjust,
    luaReset,
    luaDecide,
    luaRequests,
  ].join('')
  const name = `sluice_${sha1(text).slice(0, 16)}`
  const script = `${text}\nreturn decide(KEYS, ARGV)\n`
  return { name, peekName: `${name}_peek`, library: libraryOf(name, text), script, sha: sha1(script) }
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}

/** A call that is killed or fails half-way may leave tables half-written: the next one builds the program again. */
function libraryOf(name: string, text: string): string {
  return `#!lua name=${name}
local function build()
${text}
return decide
end

local decide, isWhole

local function run(keys, args)
  if not isWhole then decide = build() end
  isWhole = false
  local reply = decide(keys, args)
  isWhole = true
  return reply
end

redis.register_function('${name}', run)
redis.register_function{ function_name = '${name}_peek', callback = run, flags = { 'no-writes' } }
`
}

/** The algorithms by their names. Those that share a text share its functions. */
function luaKindTable(algorithms: readonly Algorithm[]): string {
  const texts = [...new Set(algorithms.map(luaOf))]
  const loads = texts.map((lua) => `  function()\n${lua}\n  end,`)
  return `
local loads = {
${loads.join('\n')}
}

local function numberIn(word)
  if word == '' then return 0 end
  return tonumber(word, 36) or tonumber(string.sub(word, 2))
end

local kinds = {}
${algorithms.map((each) => kindOf(each, texts.indexOf(luaOf(each)) + 1)).join('')}`
}

function kindOf(algorithm: Algorithm, load: number): string {
  const { initialState, entries = false, compatibleWith, parameters } = algorithm
  const newest = algorithm.cells.findIndex((cell) => cell.newest) + 1
  const cells = initialState.map((cell) => (cell === -Infinity ? '-huge' : String(cell)))
  const words = ['perMs', ...parameters.map((_, i) => `w${i}`)].join(', ')
  const numbers = parameters.map((name, i) => `[${quoted(name)}] = numberIn(w${i})`)
  return `
kinds[${quoted(kindName(algorithm))}] = {
  cells = ${cells.length}, blank = { ${cells.join(', ')} }, entries = ${entries}, load = loads[${load}],
  ${newest === 0 ? '' : `newest = ${newest}, times = { ${timesOf(algorithm)} },`}
  ${compatibleWith === undefined ? '' : `family = ${quoted(familyOf(algorithm))}, `}${entries ? `format = '<${'d'.repeat(cells.length)}I2I2I4I4',` : ''}
  parameters = function(signature, strict)
    local ${words} = string.match(signature, '${',([^,]*)'.repeat(parameters.length + 1)}')
    local ticks = perMs == '' and 1000 or numberIn(perMs)
    return { perMs = ticks, strict = strict, ${numbers.join(', ')} }
  end,
}
`
}

/** The cells that are points in time, by their places, and the ticks of each: 1 or a parameter. */
function timesOf({ cells }: Algorithm): string {
  const times = cells.map(({ ticks }, i) => ticks && `[${i + 1}] = ${ticks === 1 ? 1 : quoted(ticks)}`)
  return times.filter((each) => each !== undefined).join(', ')
}

/** One name for all that take over from one another. */
function familyOf(algorithm: Algorithm): string {
  return [algorithm, ...algorithm.compatibleWith!].map(kindName).toSorted()[0]!
}

/** A text as Lua writes it, whatever is in it. */
function quoted(text: string): string {
  const bytes = [...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`)
  return /^\w*$/.test(text) ? `'${text}'` : `'${bytes.join('')}'`
}
