import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { gcra, memoryStore } from '../../../src/index.ts'
import { LocalDecisions } from '../../../src/stores/guard/local.ts'
import { Charge, createPolicy, type Deciding, type DecisionMode } from '../../../src/stores/store.ts'
import { laterStore } from '../../support/later.ts'

const store = laterStore(memoryStore())

function charge(window: `${number}ms`): Charge {
  return new Charge(createPolicy('test', gcra({ quota: 1, window }), store, {}), 'k', 1)
}

function deciding(kind: DecisionMode, charge: Charge): Deciding {
  return { kind, charges: [charge], fresh: false }
}

it('counts in this process are freed once all of them have expired', async () => {
  const local = new LocalDecisions(1, 1000, store)
  expect(local.isEmpty).toBe(true)
  for (const window of ['60ms', '150ms'] as const) local.decide(deciding('consume', charge(window)), 'local')
  local.releaseLater()
  await pause(90)
  expect(local.isEmpty).toBe(false)
  await pause(120)
  expect(local.isEmpty).toBe(true)
})

it('counts in this process stay while decisions are made by them', async () => {
  const local = new LocalDecisions(1, 1000, store)
  const again = charge('10ms')
  local.decide(deciding('consume', again), 'local')
  local.releaseLater()
  local.decide(deciding('peek', again), 'local')
  await pause(40)
  expect(local.isEmpty).toBe(false)
  local.close()
})

it('counts for a very long time stay', () => {
  const local = new LocalDecisions(1, 1000, store)
  local.decide(deciding('consume', charge('31536000000ms')), 'local')
  local.releaseLater()
  expect(local.isEmpty).toBe(false)
})
