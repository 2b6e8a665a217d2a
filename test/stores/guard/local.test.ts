import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { gcra, memoryStore } from '../../../src/index.ts'
import { LocalDecisions } from '../../../src/stores/guard/local.ts'
import { Charge, createPolicy } from '../../../src/stores/store.ts'

function charge(window: `${number}ms`): Charge {
  return new Charge(createPolicy('test', gcra({ quota: 1, window }), memoryStore(), {}), 'k', 1)
}

it('counts in this process are freed once all of them have expired', async () => {
  const local = new LocalDecisions(1, 1000, undefined)
  expect(local.isEmpty).toBe(true)
  for (const window of ['60ms', '150ms'] as const) local.take([charge(window)], 'consume', 'local')
  local.releaseLater()
  await pause(90)
  expect(local.isEmpty).toBe(false)
  await pause(120)
  expect(local.isEmpty).toBe(true)
})

it('counts in this process stay while decisions are made by them', async () => {
  const local = new LocalDecisions(1, 1000, undefined)
  const again = charge('10ms')
  local.take([again], 'consume', 'local')
  local.releaseLater()
  local.take([again], 'peek', 'local')
  await pause(40)
  expect(local.isEmpty).toBe(false)
  local.close()
})

it('counts for a very long time stay', () => {
  const local = new LocalDecisions(1, 1000, undefined)
  local.take([charge('31536000000ms')], 'consume', 'local')
  local.releaseLater()
  expect(local.isEmpty).toBe(false)
})
