import { beforeEach, expect, it, vi } from 'vitest'
import { gcra, memoryStore } from '../../../src/index.ts'
import { LocalDecisions } from '../../../src/stores/guard/local.ts'
import { Charge, createPolicy, type Deciding, type DecisionMode } from '../../../src/stores/store.ts'
import { virtualClock } from '../../../src/testing.ts'
import { laterStore } from '../../support/later.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))

const clock = virtualClock()
const store = laterStore(memoryStore({ clock }))

function charge(window: `${number}ms`): Charge {
  return new Charge(createPolicy('test', gcra({ quota: 1, window }), store, {}), 'k', 1)
}

function deciding(kind: DecisionMode, charge: Charge): Deciding {
  return { kind, charges: [charge], fresh: false }
}

function pass(ms: number): void {
  clock.advance(ms)
  vi.advanceTimersByTime(ms)
}

it('counts in this process are freed within a minute after all of them have expired', () => {
  const local = new LocalDecisions(1, 1000, store)
  expect(local.isEmpty).toBe(true)
  for (const window of ['60000ms', '150000ms'] as const) local.decide(deciding('consume', charge(window)), 'local')
  pass(120_000)
  expect(local.isEmpty).toBe(false)
  pass(120_000)
  expect([local.isEmpty, vi.getTimerCount()]).toEqual([true, 0])
})

it('counts in this process stay while they have not expired, however long that is', () => {
  const local = new LocalDecisions(1, 1000, store)
  local.decide(deciding('consume', charge('31536000000ms')), 'local')
  for (let hour = 0; hour < 48; hour++) pass(3_600_000)
  expect(local.isEmpty).toBe(false)
  local.close()
  expect(vi.getTimerCount()).toBe(0)
})
