import { createHash } from 'node:crypto'
import type { Algorithm } from '../../algorithms/algorithm.ts'
import { luaPrelude } from '../../algorithms/arithmetic.ts'
import { luaEntries } from './lua/entries.ts'
import { luaAlone } from './lua/alone.ts'
import { luaFrame } from './lua/frame.ts'
import { luaGeneral } from './lua/general.ts'
import { luaHead } from './lua/head.ts'
import { luaPlain } from './lua/plain.ts'
import { luaReply } from './lua/reply.ts'
import { luaState } from './lua/state.ts'
import { luaTransaction } from './lua/transaction.ts'
import { luaTrial } from './lua/trial.ts'
import { kindName } from './signature.ts'

/** A script and the name Redis knows it by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/** Milliseconds that a key outlives its use; with a clock of one's own nobody knows how far it is from the server's. */
const SLACK = 1000
const SLACK_OF_OWN_CLOCK = 3_600_000

/**
 * The script that decides, for a set of algorithms: a frame, in `redis-lua/`, around their Lua twins. One run decides any
 * number of transactions, by the server's clock or by one of our own.
 *
 * KEYS: for each transaction its hashes, one for each (limiter, key). In a hash one field for each limit, `signature · NUL ·
 * cells · kept`: numbers as little-endian doubles, but `kept`, the epoch second until which the hash is known to be kept, as
 * four bytes. A locked one begins with `\1 · lock`. A limit that keeps entries has `head · tail` and the first of its
 * entries, `time · cost`, behind its cells, the newest ones behind everything, and the others in fields of their own, `name · NUL ·
 * number`.
 *
 * ARGV: the time in microseconds, if it is by our own clock; the policies; runs of transactions that are alike but for their keys,
 * or nothing when all transactions are for one unit of all policies.
 *
 * The reply is flat: the time, then for each transaction 0, or what its charges came to, or what went wrong.
 */
export function scriptFor(algorithms: readonly Algorithm[], ownClock: boolean): Script {
  const known = new Set(algorithms.flatMap((each) => [each, ...(each.compatibleWith ?? [])]))
  // In one order, whichever a process met first: the fleet shares one script.
  const sorted = [...known].toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const entries = sorted.some((each) => each.entries) ? luaEntries : ''
  const text = [
    luaHead(ownClock, ownClock ? SLACK_OF_OWN_CLOCK : SLACK),
    luaPrelude,
    entries,
    luaKnown(sorted),
    luaReply,
    luaFrame(luaAlone, luaGeneral(luaPlain, luaState + luaTrial + luaTransaction)),
  ].join('')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** The kind and the parameters that a signature names. What a call does not need is not even made. */
function luaKnown(algorithms: readonly Algorithm[]): string {
  const texts = [...new Set(algorithms.map(({ lua }) => lua))]
  const kinds = algorithms.map((each, i) => {
    const [kind, twin] = [`kinds[${i + 1}]`, `twins[${texts.indexOf(each.lua) + 1}]`]
    return `
  if name == ${quoted(kindName(each))} then
    if not ${kind} then
      ${twin} = ${twin} or (function()
${each.lua}
      end)()
      ${kind} = ${kindOf(each, twin)}
    end
    ${parametersOf(each, kind)}
  end`
  })
  return `
local kinds, twins = { ${nothing(algorithms.length)} }, { ${nothing(texts.length)} }

-- A number in a signature that is no whole number from 0.
local function odd(word)
  return tonumber(string.sub(word, 2))
end

local function known(signature)
  local name, number = match(signature, '^[^,]*'), tonumber
${kinds.join('')}
end
`
}

/** So many nils: a table that begins with them need not grow. */
function nothing(times: number): string {
  return Array.from({ length: times }, () => 'nil').join(', ')
}

function kindOf(algorithm: Algorithm, twin: string): string {
  const { initialState, entries = false, compatibleWith } = algorithm
  const cells = initialState.map((cell) => (cell === -Infinity ? '-huge' : String(cell)))
  const doubles = cells.length + (entries ? 4 : 0)
  return `{
        twin = ${twin}, cells = ${cells.length}, numbers = ${doubles + 1}, entries = ${entries ? 'makeLists()' : 'false'},${compatibleWith === undefined ? '' : `\n        compatibleWith = ${quoted(familyOf(algorithm))},`}
        blank = { ${[...cells, ...(entries ? [0, 0, 0, 0] : []), 0].join(', ')} }, format = '<${'d'.repeat(doubles)}I4',
      }`
}

/** One name for all that take over from one another. */
function familyOf(algorithm: Algorithm): string {
  return [algorithm, ...algorithm.compatibleWith!].map(kindName).toSorted()[0]!
}

/** Up to 31 of them: a pattern catches 32 words. */
function parametersOf({ parameters }: Algorithm, kind: string): string {
  const names = ['perMs', ...parameters]
  const words = names.map((_, i) => `w${i}`).join(', ')
  const numbers = names.map((name, i) => `[${quoted(name)}] = number(w${i}, 36) or odd(w${i})`)
  return `local ${words} = match(signature, '${',([^,]*)'.repeat(names.length)}')
    return ${kind}, { strict = 0, ${numbers.join(', ')} }`
}

/** A text as Lua writes it, whatever is in it. */
function quoted(text: string): string {
  const bytes = [...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`)
  return /^\w*$/.test(text) ? `'${text}'` : `'${bytes.join('')}'`
}
