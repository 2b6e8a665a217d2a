// A limiter reports its decisions to `onDecision`, which cannot change them.
import { expect, it, vi } from 'vitest'
import {
  createLimiter,
  type Decision,
  type Limit,
  type Limiter,
  memoryStore,
  perMinute,
  perSecond,
  stack,
} from '../../src/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { warningsOfEachTest } from '../support/guarded.ts'
import { heldStore, settled } from '../support/held-store.ts'
import { broken } from '../support/unhandled.ts'

type Call = [decision: Decision, input: string]

/** Returns a limiter whose decisions are recorded, with their inputs. */
function recorded(limits: Limit, store = memoryStore()): { calls: Call[]; limiter: Limiter<string, Decision> } {
  const calls: Call[] = []
  const onDecision = (...call: Call): void => void calls.push(call)
  return { calls, limiter: createLimiter({ keyer: (input: string) => input, limits, store, onDecision }) }
}

const document = { policies: [{ name: 'api', key: 'ip', limits: [{ quota: 1, window: '1m' }] }] }

const warnings = warningsOfEachTest()

it('is called with each decision of consume and its input, and not for peek', () => {
  const { calls, limiter } = recorded(perMinute(1))
  const inputs = ['ann', 'ann', 'bob']
  const decisions = inputs.map((input) => limiter.consume(input))
  limiter.peek('ann')
  expect(calls).toEqual(decisions.map((decision, i) => [decision, inputs[i]]))
  expect(calls.map(([{ allowed }]) => allowed)).toEqual([true, false, true])
})

it('is called once for a wait, when it is admitted', async () => {
  const clock = virtualClock()
  const { calls, limiter } = recorded(perSecond(1), memoryStore({ clock }))
  await limiter.wait('ann')
  const second = limiter.wait('ann')
  await settled()
  expect(calls).toHaveLength(1)
  await expect(limiter.wait('ann', { maxWait: 10 })).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
  clock.advance(1000)
  const admitted = await second
  expect(calls.map(([decision]) => decision)[1]).toBe(admitted)
  expect(calls).toHaveLength(2)
})

it('is called when the store has answered', async () => {
  const store = heldStore(memoryStore())
  const onDecision = vi.fn()
  const limiter = createLimiter({ keyer: () => 'k', limits: perMinute(1), store, onDecision })
  const decision = limiter.consume({})
  await settled()
  expect(onDecision).not.toHaveBeenCalled()
  await store.requests[0]!.apply()
  await store.requests[0]!.reply()
  expect(onDecision).toHaveBeenCalledExactlyOnceWith(await decision, {})
})

it('is called by each limiter of a stack with the decision of the stack', () => {
  const store = memoryStore()
  const [one, two] = [vi.fn(), vi.fn()]
  const first = createLimiter({ name: 'one', keyer: () => 'k', limits: perMinute(5), store, onDecision: one })
  const second = createLimiter({ name: 'two', keyer: () => 'k', limits: perMinute(1), store, onDecision: two })
  const both = stack(first, second, first)
  const decision = both.consume({})
  expect(decision.limits).toHaveLength(2)
  expect(one).toHaveBeenCalledExactlyOnceWith(decision, {})
  expect(two).toHaveBeenCalledExactlyOnceWith(decision, {})
})

it('is called for rules', async () => {
  const onDecision = vi.fn()
  const input = { ip: '192.0.2.1' }
  const decision = await createLimiter({ rules: createRules(document), onDecision }).consume(input)
  expect(onDecision).toHaveBeenCalledExactlyOnceWith(decision, input)
})

it('is not called for a document in shadow', async () => {
  const onDecision = vi.fn()
  const rules = createRules(document)
  rules.shadow(document)
  await createLimiter({ rules, onDecision }).consume({ ip: '192.0.2.1' })
  expect(onDecision).toHaveBeenCalledTimes(1)
})

it.each([
  ['throws', () => broken()],
  ['rejects', async () => broken()],
])('changes nothing when it %s, and warns once', async (_, onDecision: () => void) => {
  const limiter = createLimiter({ keyer: () => 'k', limits: perMinute(1), onDecision })
  expect([limiter.consume({}).allowed, limiter.consume({}).allowed]).toEqual([true, false])
  await settled()
  expect(warnings.codes).toEqual(['SLUICE_OUTCOME'])
})

it('must be a function', () => {
  const onDecision = true as unknown as () => void
  expect(() => createLimiter({ keyer: () => 'k', limits: perMinute(1), onDecision })).toThrow(/^onDecision: /)
})
