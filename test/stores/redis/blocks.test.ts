import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BLOCK_ENTRIES, ENTRY, RECORD } from '../../../src/stores/redis/keys.ts'
import luaEntries from '../../../src/stores/redis/lua/entries.lua?raw'
import { type Change, changes, type EditedBy, EditModel } from '../../support/entry-edits.ts'
import { redisForAll } from '../../support/redis-tests.ts'

/** Entries in a hash, as the program keeps them. It counts the commands it calls and the numbers it reads. */
const PRELUDE = `
local commands, reads = 0, 0
local function call(...) commands = commands + 1 return redis.call(...) end
local pack, sub, floor, max, huge = struct.pack, string.sub, math.floor, math.max, math.huge
local function unpacked(...) reads = reads + 1 return struct.unpack(...) end
local ENTRY, RECORD, BLOCK_ENTRIES = ${ENTRY}, ${RECORD}, ${BLOCK_ENTRIES}
${luaEntries}
local kind, key = { cells = 0, format = '<I2I2I4I4' }, KEYS[1]
local entries = newEntries('log')

local function open()
  local value = redis.call('HGET', key, 'log')
  if value then aim(entries, key, value, 13, struct.unpack(kind.format, value)) else aimAtNone(entries, key) end
end

local function change(edit)
  local set, gone = {}, {}
  entries.edit(unpack(edit))
  applyEdit(entries)
  writeBlocks(entries, set, gone)
  set[#set + 1], set[#set + 2] = 'log', valueOf(entries, kind, {})
  for i = 1, #set, 1000 do redis.call('HSET', key, unpack(set, i, math.min(i + 999, #set))) end
  for i = 1, #gone, 1000 do redis.call('HDEL', key, unpack(gone, i, math.min(i + 999, #gone))) end
  return #set / 2 + #gone
end
`

const SEARCH = `${PRELUDE}
local answers = {}
for i, each in ipairs(cjson.decode(ARGV[1])) do
  open()
  change(each.edit)
  if each.goesOn then goOn(entries) else open() end
  local answer = {
    entries.costUntil(each.time), entries.timeOf(math.max(1, each.cost)), entries.costAt(each.time), entries.beforeNewest(),
  }
  for k, number in ipairs(answer) do answer[k] = string.format('%.17g', number) end
  answers[i] = table.concat(answer, ' ')
end
return answers
`

const FILL = `${PRELUDE}
for time = 1, tonumber(ARGV[1]) do
  open()
  change({ 0, 0, 0, time, 1 })
end
`

/** Refunds 15 of 16 entries. */
const THIN_OUT = `${PRELUDE}
for time = 1, tonumber(ARGV[1]) do
  if time % 16 ~= 0 then
    open()
    change({ 0, time, 1, 0, 0 })
  end
end
`

/** Returns how many commands were called to read, how many numbers were read, and how many fields were written or deleted. */
const WORK = `${PRELUDE}
open()
local question, edit = unpack(cjson.decode(ARGV[1]))
if question[1] then entries[question[1]](unpack(question, 2)) end
local fields = edit and change(edit) or 0
return { commands, reads, fields }
`

/** With chunks of 2 entries and blocks of 4, so that there are many of them. */
const small = (script: string): string =>
  script.replace('CHUNK, BLOCK = 8 * ENTRY, BLOCK_ENTRIES * ENTRY', 'CHUNK, BLOCK = 2 * ENTRY, 4 * ENTRY')

describe('entries in blocks', () => {
  const redis = redisForAll()

  /** Each change in turn, half of them on entries that were read again. */
  async function compare(all: readonly Change[], script: string): Promise<void> {
    await redis.client.flushall()
    const model = new EditModel()
    const edits: EditedBy[] = []
    const expected: number[][] = []
    for (const change of all) {
      const edited = model.edited(change)
      edits.push(edited)
      expected.push(model.answers(edited.question))
    }
    const cases = edits.map(({ edit: { drop, takeTime, takeCost, pushTime, pushCost }, question }, i) => ({
      edit: [drop, takeTime, takeCost, pushTime, pushCost],
      goesOn: i % 2 === 0,
      time: question.time,
      cost: question.cost,
    }))
    const answers = (await redis.client.eval(script, 1, 'entries', JSON.stringify(cases))) as string[]
    const numbers = answers.map((each) => each.split(' ').map((word) => Number(word.replace('inf', 'Infinity'))))
    expect(numbers).toEqual(expected)
    const { length } = model.list.items
    const inBlocks = (await redis.client.hkeys('entries')).filter((field) => field !== 'log')
    expect(inBlocks.length <= (script === SEARCH ? (2 * length) / BLOCK_ENTRIES : length / 2) + 3).toBe(true)
  }

  it('answer as a list does, whatever was added, dropped and taken off', async () => {
    const lists = fc.array(changes(50), { minLength: 10, maxLength: 400, size: 'max' })
    await fc.assert(
      fc.asyncProperty(lists, (all) => compare(all, small(SEARCH))),
      { numRuns: 50 },
    )
  })

  it('do so in blocks of the real size', async () => {
    const lists = fc.array(changes(1000), { minLength: 2000, maxLength: 4000, size: 'max' })
    await fc.assert(
      fc.asyncProperty(lists, (all) => compare(all, SEARCH)),
      { numRuns: 4, endOnFailure: true },
    )
  })

  it('of which many are refunded leave few blocks', async () => {
    await redis.client.flushall()
    await redis.client.eval(FILL, 1, 'entries', '4000')
    await redis.client.eval(THIN_OUT, 1, 'entries', '4000')
    const blocks = (await redis.client.hkeys('entries')).filter((field) => /\d$/.test(field))
    expect(blocks.length).toBeLessThanOrEqual((2 * 250) / BLOCK_ENTRIES + 3)
  })

  describe('the work of one decision on 20,000 entries', () => {
    const COUNT = 20_000
    const BLOCKS = COUNT / BLOCK_ENTRIES

    async function work(question: readonly unknown[], edit?: readonly number[]): Promise<number[]> {
      return (await redis.client.eval(WORK, 1, 'many', JSON.stringify([question, edit ?? false]))) as number[]
    }

    it('takes a few commands, a number for each block and for the entries of two blocks', async () => {
      await redis.client.eval(FILL, 1, 'many', String(COUNT))
      const cases: [string, readonly unknown[], number[]?][] = [
        ['an admitted request', ['costUntil', 0], [0, 0, 0, COUNT + 1, 1]],
        ['a denied one', ['timeOf', 1]],
        ['a denied one that needs half of it', ['timeOf', COUNT / 2]],
        ['a denied one that needs all of it', ['timeOf', COUNT]],
        ['a request when half is over', ['costUntil', COUNT / 2]],
        ['a refund of the newest', ['beforeNewest'], [0, COUNT + 1, 1, 0, 0]],
        ['a refund of an entry in the middle', ['costAt', COUNT / 2], [0, COUNT / 2, 1, 0, 0]],
        ['a smaller quota', ['costUntil', 0], [COUNT / 2, 0, 0, 0, 0]],
        ['the first request after the window', ['costUntil', COUNT], [COUNT / 2 - 1, 0, 0, 2 * COUNT, 1]],
      ]
      for (const [what, question, edit] of cases) {
        const [commands, reads, fields] = await work(question, edit)
        expect([what, commands! <= 5, reads! <= 3 * BLOCKS + 4 * BLOCK_ENTRIES, fields! <= BLOCKS + 3]).toEqual([
          what,
          true,
          true,
          true,
        ])
      }
      expect(await redis.client.hkeys('many')).toEqual(['log'])
    })

    it('of which a usual one reads one entry or two, and only the value of the log', async () => {
      await redis.client.eval(FILL, 1, 'many', String(1000))
      expect(await work(['costUntil', 0])).toEqual([0, 1, 0])
      expect(await work(['timeOf', 1])).toEqual([0, 1, 0])
      const added = [await work(['costUntil', 0], [0, 0, 0, 1001, 1])]
      for (let time = 1002; time < 1009; time++) added.push(await work(['costUntil', 0], [0, 0, 0, time, 1]))
      // One of eight writes the newest block.
      expect(added.filter(([, , fields]) => fields === 1)).toHaveLength(7)
    })
  })
})
