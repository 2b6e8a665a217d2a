import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Algorithm, createOutcome, isCompatible, type LimitParameters } from '../../src/algorithms/algorithm.ts'
import { clearEdit } from '../../src/algorithms/entries.ts'
import arithmetic from '../../src/algorithms/arithmetic.lua?raw'
import { LARGEST, rescale } from '../../src/algorithms/arithmetic.ts'
import { luaOf } from '../../src/algorithms/lua.ts'
import { EntryList } from '../../src/testing/algorithm-behaviours.ts'
import { capacityOf, events, Life, limits, names, RUNS, type State, subjectOf } from '../support/harness.ts'
import { redisForAll } from '../support/redis-tests.ts'

/** What a twin is called with, and nothing else: the rest of a store is not under test here. */
const PRELUDE = `${arithmetic}
local function number(x)
  if x == 'inf' then return math.huge elseif x == '-inf' then return -math.huge else return x end
end
local function entries(list)
  local E = { drop = 0, takeCost = 0, pushCost = 0 }
  function E.costUntil(time)
    local sum = 0
    for _, each in ipairs(list) do if each.time <= time then sum = sum + each.cost end end
    return sum
  end
  function E.timeOf(cost)
    local sum = 0
    for _, each in ipairs(list) do
      sum = sum + each.cost
      if sum >= cost then return each.time end
    end
    return -math.huge
  end
  function E.costAt(time)
    for _, each in ipairs(list) do if each.time == time then return each.cost end end
    return 0
  end
  function E.beforeNewest() return #list > 1 and list[#list - 1].time or -math.huge end
  function E.edit(...) E.drop, E.takeTime, E.takeCost, E.pushTime, E.pushCost = ... end
  return E
end
local twins = (function()
`

const EPILOGUE = `
end)()
local answers = {}
for i, case in ipairs(cjson.decode(ARGV[1])) do
  local cells = { 0.5 }
  for k, x in ipairs(case.cells) do cells[k + 1] = number(x) end
  local E = entries(case.entries)
  local results
  if case.verb == 'step' then results = { twins.step(case.p, cells, 1, case.now, case.cost, E) }
  elseif case.verb == 'adjust' then results = { twins.adjust(case.p, cells, 1, case.now, case.when, case.cost, E) }
  else
    results = { twins.convert(case.p, case.from, cells, 1, case.now, E) }
    results[case.count] = results[case.count] or 0
  end
  local said = {}
  for k = 1, case.count do
    local x = results[k]
    if type(x) == 'boolean' then said[k] = tostring(x) else said[k] = string.format('%.17g', x) end
  end
  if case.keeps then
    for _, name in ipairs({ 'drop', 'takeCost', 'pushCost' }) do said[#said + 1] = string.format('%.17g', E[name]) end
    if E.takeCost > 0 then said[#said + 1] = string.format('%.17g', E.takeTime) end
    if E.pushCost > 0 then said[#said + 1] = string.format('%.17g', E.pushTime) end
  end
  answers[i] = table.concat(said, ' ')
end
return answers
`

const FIELDS = {
  step: ['allowed', 'at', 'retry', 'remaining', 'reset', 'delay', 'charged', 'persist'],
  adjust: ['persist'],
  convert: [],
} as const

interface Case extends State {
  readonly verb: keyof typeof FIELDS
  readonly algorithm: Algorithm
  readonly p: LimitParameters
  readonly from: LimitParameters
  readonly now: number
  readonly when: number
  readonly cost: number
}

/** The same words as the twin finds for what it has written. */
function said({ verb, algorithm, p, from, now, when, cost, cells, entries }: Case): string {
  const out = createOutcome()
  out.charged = 0
  clearEdit(out.edit)
  const s = Float64Array.from(cells)
  const list = new EntryList()
  list.items.push(...entries)
  if (verb === 'step') algorithm.step(p, s, 0, now, cost, out, list)
  else if (verb === 'adjust') algorithm.adjust(p, s, 0, now, when, cost, out, list)
  else algorithm.convert(p, from, s, 0, now, out, list)
  const words: (number | boolean)[] = [
    ...FIELDS[verb].map((name) => out[name]),
    ...out.next.subarray(0, algorithm.initialState.length),
    ...(verb === 'convert' ? [out.charged] : []),
  ]
  const { drop, takeTime, takeCost, pushTime, pushCost } = out.edit
  if (algorithm.entries) words.push(drop, takeCost, pushCost)
  if (algorithm.entries && takeCost > 0) words.push(takeTime)
  if (algorithm.entries && pushCost > 0) words.push(pushTime)
  return words.join(' ')
}

/** Numbers as JavaScript writes them, without the sign of a zero. */
function read(words: string): string {
  const value = (word: string): number => Number(word.replace('inf', 'Infinity')) + 0
  return words
    .split(' ')
    .map((word) => (/^(true|false)$/.test(word) ? word : String(value(word))))
    .join(' ')
}

function json(cases: readonly Case[]): string {
  const written = cases.map(({ algorithm, ...each }) => ({
    ...each,
    cells: each.cells.map((x) => (Number.isFinite(x) ? x : x > 0 ? 'inf' : '-inf')),
    count: FIELDS[each.verb].length + algorithm.initialState.length + (each.verb === 'convert' ? 1 : 0),
    keeps: algorithm.entries === true,
  }))
  return JSON.stringify(written)
}

const perMs = fc.constantFrom(undefined, undefined, 1 as const)
const part = fc.double({ min: -1.2, max: 1.2, noNaN: true })

/** Every verb on one state that a trace has led to. */
function casesOf(name: string): fc.Arbitrary<readonly Case[]> {
  return fc
    .tuple(limits(name), limits(name), perMs, perMs, events({ back: true, adjust: true }), part, part, fc.nat(3))
    .map(([limit, next, ticks, nextTicks, past, pause, fraction, which]) => {
      const subject = subjectOf(limit, ticks)
      const other = subjectOf(next, nextTicks)
      if (subject === undefined || other === undefined) return []
      const life = new Life(subject)
      life.live(past)
      const now = life.now + Math.round(pause * subject.window)
      const cost = Math.round(Math.abs(fraction) * capacityOf(subject))
      const when = life.charges.at(-1 - which)?.at ?? now
      const { algorithm, parameters: p } = subject
      const state = subject.state()
      const common = { ...state, algorithm, p, from: p, now, when }
      const one = (verb: Case['verb'], cost: number): Case => ({ ...common, verb, cost })
      const cases: Case[] = []
      for (const each of [0, 1, cost, capacityOf(subject) + 1]) cases.push(one('step', each))
      for (const each of [cost, -cost, -1, 1]) cases.push(one('adjust', each))
      // Where verdicts change, and one tick before.
      const { retry, reset } = subject.peek(life.now, Math.max(1, cost))
      for (const edge of [retry < Infinity ? retry : 0, reset]) {
        for (const time of [life.now + edge, life.now + edge - 1]) {
          for (const each of [one('step', cost), one('step', 0), one('adjust', -1)]) cases.push({ ...each, now: time })
        }
      }
      if (!isCompatible(other.algorithm, algorithm)) return cases
      const tick = rescale(now, p, other.parameters)
      cases.push({ ...one('convert', 0), algorithm: other.algorithm, p: other.parameters, now: tick })
      return cases
    })
}

const redis = redisForAll()

describe('the Lua text decides the same as TypeScript, to the bit', () => {
  async function differences(cases: readonly Case[]): Promise<[string, string, Case][]> {
    const found: [string, string, Case][] = []
    for (const algorithm of new Set(cases.map((each) => each.algorithm))) {
      const mine = cases.filter((each) => each.algorithm === algorithm)
      const script = PRELUDE + luaOf(algorithm) + EPILOGUE
      const answers = (await redis.client.eval(script, 0, json(mine))) as string[]
      expect(answers).toHaveLength(mine.length)
      mine.forEach((each, i) => {
        const [expected, actual] = [read(said(each)), read(answers[i]!)]
        if (expected !== actual) found.push([expected, actual, each])
      })
    }
    return found
  }

  it.each(names())('%s', async (name) => {
    const batches = fc.array(casesOf(name), { minLength: 20, maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(batches, async (batch) => {
        const [first] = await differences(batch.flat())
        if (first !== undefined) expect({ said: first[1], case: first[2] }).toEqual({ said: first[0], case: first[2] })
      }),
      { numRuns: RUNS.numRuns / 20, endOnFailure: true },
    )
  })
})

describe('the Lua prelude', () => {
  const micro: LimitParameters = { perMs: 1000, strict: 0 }
  const milli: LimitParameters = { perMs: 1, strict: 0 }

  async function lua(expression: string): Promise<number> {
    return Number(await redis.client.eval(`${arithmetic}\nreturn string.format('%.17g', ${expression})`, 0))
  }

  it('has the same largest number', async () => expect(await lua('LARGEST')).toBe(LARGEST))

  it.each([
    [micro, milli],
    [milli, micro],
    [micro, micro],
  ])('rescales ticks as TypeScript does: %j to %j', async (from, to) => {
    for (const ticks of [0, 1, 999, 1000, 1001, 1_767_225_600_000_999, -1, -999, -1000, -1001]) {
      const call = `rescale(${ticks}, { perMs = ${from.perMs} }, { perMs = ${to.perMs} })`
      expect(await lua(call)).toBe(rescale(ticks, from, to))
    }
  })

  it('rounds a coarser tick down, also before the epoch', () => {
    expect(rescale(1999, micro, milli)).toBe(1)
    expect(rescale(-1, micro, milli)).toBe(-1)
    expect(rescale(7, milli, micro)).toBe(7000)
  })
})
