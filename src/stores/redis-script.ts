import { createHash } from 'node:crypto'
import { type Algorithm, luaPrelude } from '../algorithm.ts'
import { luaEntries } from './redis-lua-entries.ts'
import { luaArguments, luaHead, luaReply, luaTransactions } from './redis-lua-frame.ts'
import { luaState } from './redis-lua-state.ts'
import { luaTrial } from './redis-lua-trial.ts'

/** A script and the name Redis knows it by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/**
 * The script that decides, for a set of algorithms: a frame, in `redis-lua-*.ts`, around their Lua twins. One run decides any
 * number of transactions.
 *
 * KEYS: one hash for each (limiter, key). In a hash one field for each limit, `lock · signature · NUL · cells` with numbers
 * as little-endian doubles; a limit that keeps entries has `head · tail` behind its cells and further fields,
 * `name · NUL · number`, of up to 32 entries `time · cost` each.
 *
 * ARGV: the time in microseconds (empty: the server's), how many milliseconds keys outlive their use, the policies, the
 * transactions.
 *
 * The reply is flat: for each transaction 0, followed by eight numbers for each of its charges, or what went wrong.
 */
export function scriptFor(algorithms: readonly Algorithm[]): Script {
  // In one order, whichever a process met first: the fleet shares one script.
  const sorted = algorithms.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const entries = sorted.some((each) => each.entries) ? [luaEntries] : []
  const text = [
    luaHead,
    luaPrelude + luaKinds(sorted),
    ...entries,
    luaState,
    luaTrial,
    luaArguments,
    luaTransactions,
    luaReply,
  ].join('')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** Algorithms by name. What a call does not need is not even made. */
function luaKinds(algorithms: readonly Algorithm[]): string {
  const texts = [...new Set(algorithms.map(({ lua }) => lua))]
  const twins = texts.map((lua, i) => `if number == ${i} then return (function()\n${lua}\nend)() end`)
  const kinds = algorithms.map(
    (each) => `if name == ${quoted(each.name)} then return ${kindOf(each, texts.indexOf(each.lua))} end`,
  )
  return `
local function twin(number)
${twins.join('\n')}
end

local function newKind(name)
${kinds.join('\n')}
end

local kinds = {}
local function kindNamed(name)
  local kind = kinds[name]
  if kind then return kind end
  kind = newKind(name)
  kinds[name] = kind
  return kind
end
`
}

function kindOf({ parameters, blank, entries = false }: Algorithm, twin: number): string {
  const cells = blank.map((cell) => (cell === -Infinity ? '-huge' : String(cell)))
  return (
    `{ twin = twin(${twin}), parameters = { ${parameters.map(quoted).join(', ')} }, blank = { ${cells.join(', ')} }, ` +
    `cells = ${cells.length}, format = '<${'d'.repeat(cells.length)}', entries = ${String(entries)} }`
  )
}

/** A text as Lua writes it, whatever is in it. */
function quoted(text: string): string {
  const bytes = [...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`)
  return /^\w*$/.test(text) ? `'${text}'` : `'${bytes.join('')}'`
}
