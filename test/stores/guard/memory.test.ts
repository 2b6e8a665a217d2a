import { expect, it } from 'vitest'
import { fixedWindow, memoryStore } from '../../../src/index.ts'
import { Backlog } from '../../../src/stores/guard/backlog.ts'
import { Charge, createPolicy, type Locking } from '../../../src/stores/store.ts'
import { headerPart, heapUsed } from '../../support/heap.ts'
import { methodStore } from '../../support/method-store.ts'

const policy = createPolicy('test', fixedWindow({ name: 'one', quota: 1, window: '1h' }), memoryStore(), {})
const MOST = 10_000

/** Returns a charge whose key is a part of a longer text, as of a header. */
function charge(i: number): Charge {
  const made = new Charge(policy, headerPart(i), 1)
  made.markCharged(i, 1)
  return made
}

function lockOf(i: number): Locking {
  return { kind: 'lock', charges: [charge(i)], ms: 0, mode: 'set' }
}

/** A backlog, and what it has sent. */
function backlogTo(sent: unknown[]): Backlog {
  const inner = methodStore({
    take: async () => undefined,
    adjust: async (charges, units) => void sent.push({ charges, units }),
    lock: async (charges) => void sent.push(charges),
    forget: async () => undefined,
  })
  return new Backlog({ inner, isOutFor: () => false, failed: (_, error) => sent.push(error) })
}

it('the adjustments that wait for a store keep 1 kB of each charge, and no header', async () => {
  const sent: unknown[] = []
  const backlog = backlogTo(sent)
  const before = heapUsed()
  for (let i = 0; i < MOST; i++) backlog.keep({ kind: 'adjust', charges: [charge(i)], units: [-1] })
  expect(heapUsed() - before).toBeLessThan(MOST * 1000)
  expect(backlog.keep({ kind: 'adjust', charges: [charge(0)], units: [-1] })).toMatchObject({ code: 'STORE_FAILED' })
  await backlog.send()
  expect(sent).toHaveLength(MOST)
  expect(sent[0]).toMatchObject({ units: [-1], charges: [{ key: charge(0).key, at: 0, charged: 1, policy }] })
})

it('the lock-outs that wait for a store keep 1 kB each, and no header', async () => {
  const sent: unknown[] = []
  const backlog = backlogTo(sent)
  const before = heapUsed()
  for (let i = 0; i < MOST; i++) backlog.keep(lockOf(i), i)
  expect(heapUsed() - before).toBeLessThan(MOST * 1000)
  expect(backlog.keep(lockOf(MOST), 1)).toMatchObject({ code: 'STORE_FAILED' })
  await backlog.send()
  expect(sent).toHaveLength(MOST)
})
