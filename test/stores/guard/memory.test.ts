import { expect, it } from 'vitest'
import { fixedWindow, memoryStore } from '../../../src/index.ts'
import { Backlog } from '../../../src/stores/guard/backlog.ts'
import { Charge, createPolicy } from '../../../src/stores/store.ts'
import { headerPart, heapUsed } from '../../support/heap.ts'
import { faultyStore } from '../../support/faulty-store.ts'

const policy = createPolicy('test', fixedWindow({ name: 'one', quota: 1, window: '1h' }), memoryStore(), {})
const MOST = 10_000

/** Returns a charge whose key is a part of a longer text, as of a header. */
function charge(i: number): Charge {
  const made = new Charge(policy, headerPart(i), 1)
  made.markCharged(i, 1)
  return made
}

/** A backlog, and what it has sent. */
function backlogTo(sent: unknown[]): Backlog {
  const inner = faultyStore((operation) => void sent.push(operation))
  return new Backlog({ inner, isOutFor: () => false, failed: (_, error) => sent.push(error) })
}

it.each([
  ['adjustments', { kind: 'adjust', units: [-1] }, undefined],
  ['lock-outs', { kind: 'lock', ms: 0, mode: 'set' }, 1],
] as const)('the %s that wait for a store keep 1 kB of each charge, and no header', async (_, operation, until) => {
  const sent: unknown[] = []
  const backlog = backlogTo(sent)
  const keep = (i: number): unknown => backlog.keep({ ...operation, charges: [charge(i)] }, until)
  const before = heapUsed()
  for (let i = 0; i < MOST; i++) keep(i)
  expect(heapUsed() - before).toBeLessThan(MOST * 1000)
  expect(keep(MOST)).toMatchObject({ code: 'STORE_FAILED' })
  await backlog.send()
  expect(sent).toHaveLength(MOST)
  expect(sent[0]).toMatchObject({ charges: [{ key: charge(0).key, at: 0, charged: 1, policy }] })
})
