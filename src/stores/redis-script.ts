import { createHash } from 'node:crypto'
import { type Algorithm, luaPrelude } from '../algorithm.ts'
import { luaEntries } from './redis-lua-entries.ts'
import { luaFrame } from './redis-lua-frame.ts'
import { luaHead, luaPolicies } from './redis-lua-head.ts'
import { luaPlain } from './redis-lua-plain.ts'
import { luaReply } from './redis-lua-reply.ts'
import { luaState } from './redis-lua-state.ts'
import { luaTransaction } from './redis-lua-transaction.ts'
import { luaTrial } from './redis-lua-trial.ts'
import { kindName } from './redis-signature.ts'

/** A script and the name Redis knows it by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/** Milliseconds that a key outlives its use; with a clock of one's own nobody knows how far it is from the server's. */
const SLACK = 1000
const SLACK_OF_OWN_CLOCK = 3_600_000

/**
 * The script that decides, for a set of algorithms: a frame, in `redis-lua-*.ts`, around their Lua twins. One run decides any
 * number of transactions, by the server's clock or by one of our own.
 *
 * KEYS: for each transaction its hashes, one for each (limiter, key). In a hash one field for each limit, `signature · NUL ·
 * cells · kept`: numbers as little-endian doubles, but `kept`, the epoch second until which the hash is known to be kept, as
 * four bytes. A locked one begins with `\1 · lock`. A limit that keeps entries has `head · tail` behind its cells, the newest of
 * its entries `time · cost` behind everything, and the others in fields of 32 each, `name · NUL · number`.
 *
 * ARGV: the time in microseconds, if it is by our own clock; the policies; runs of transactions that are alike but for their keys,
 * or nothing when all transactions are for one unit of all policies.
 *
 * The reply is flat: the time, then for each transaction 0, or what its charges came to, or what went wrong.
 */
export function scriptFor(algorithms: readonly Algorithm[], ownClock: boolean): Script {
  // In one order, whichever a process met first: the fleet shares one script.
  const sorted = algorithms.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const entries = sorted.some((each) => each.entries) ? luaEntries : ''
  const text = [
    luaHead(ownClock, ownClock ? SLACK_OF_OWN_CLOCK : SLACK),
    luaPrelude,
    luaKnown(sorted),
    luaPolicies,
    luaFrame(luaPlain, luaReply + entries + luaState + luaTrial + luaTransaction),
  ].join('')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** The kind and the parameters that a signature names. What a call does not need is not even made. */
function luaKnown(algorithms: readonly Algorithm[]): string {
  const texts = [...new Set(algorithms.map(({ lua }) => lua))]
  const kinds = algorithms.map((each) => {
    const twin = `twins[${texts.indexOf(each.lua)}]`
    return `
  if name == ${quoted(kindName(each))} then
    ${twin} = ${twin} or (function()
${each.lua}
    end)()
    kinds[name] = kinds[name] or ${kindOf(each, twin)}
    ${parametersOf(each)}
  end`
  })
  return `
local kinds, twins = {}, {}

local number = tonumber

-- A number in a signature that is no whole number from 0.
local function odd(word)
  return number(string.sub(word, 2))
end

local function known(signature)
  local name = match(signature, '^[^,]*')
${kinds.join('')}
end
`
}

function kindOf({ blank, entries = false }: Algorithm, twin: string): string {
  const cells = blank.map((cell) => (cell === -Infinity ? '-huge' : String(cell)))
  const doubles = cells.length + (entries ? 2 : 0)
  return `{
      twin = ${twin}, cells = ${cells.length}, numbers = ${doubles + 1}, entries = ${String(entries)},
      blank = { ${[...cells, ...(entries ? [0, 0] : []), 0].join(', ')} }, format = '<${'d'.repeat(doubles)}I4',
    }`
}

/** Up to 31 of them: a pattern catches 32 words. */
function parametersOf({ parameters }: Algorithm): string {
  const names = ['perMs', ...parameters]
  const words = names.map((_, i) => `w${i}`).join(', ')
  const numbers = names.map((name, i) => `[${quoted(name)}] = number(w${i}, 36) or odd(w${i})`)
  return `local ${words} = match(signature, '${',([^,]*)'.repeat(names.length)}')
    return kinds[name], { strict = 0, ${numbers.join(', ')} }`
}

/** A text as Lua writes it, whatever is in it. */
function quoted(text: string): string {
  const bytes = [...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`)
  return /^\w*$/.test(text) ? `'${text}'` : `'${bytes.join('')}'`
}
