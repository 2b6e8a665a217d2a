import { expect, it } from 'vitest'
import { fixedWindow, memoryStore } from '../../../src/index.ts'
import { Backlog } from '../../../src/stores/guard/backlog.ts'
import { KeptLocks } from '../../../src/stores/guard/kept-locks.ts'
import { Charge, createPolicy } from '../../../src/stores/store.ts'
import { headerPart, heapUsed } from '../../support/heap.ts'

const policy = createPolicy('test', fixedWindow({ name: 'one', quota: 1, window: '1h' }), memoryStore(), {})
const MOST = 10_000

/** Returns a charge whose key is a part of a longer text, as of a header. */
function charge(i: number): Charge {
  const made = new Charge(policy, headerPart(i), 1)
  made.markCharged(i, 1)
  return made
}

it('the adjustments that wait for a store keep 1 kB of each charge, and no header', () => {
  const backlog = new Backlog()
  const before = heapUsed()
  for (let i = 0; i < MOST; i++) backlog.add({ charges: [charge(i)], units: [-1] })
  expect(heapUsed() - before).toBeLessThan(MOST * 1000)
  expect(() => backlog.add({ charges: [charge(0)], units: [-1] })).toThrow('STORE_FAILED'.toLowerCase())
  const [first] = backlog.drain(() => true)
  expect(first).toMatchObject({ units: [-1], charges: [{ key: charge(0).key, at: 0, charged: 1, policy }] })
})

it('the lock-outs that wait for a store keep 1 kB each, and no header', () => {
  const locks = new KeptLocks()
  const before = heapUsed()
  for (let i = 0; i < MOST; i++) locks.keep(charge(i), i, 'set')
  expect(heapUsed() - before).toBeLessThan(MOST * 1000)
  expect(() => locks.keep(charge(MOST), 1, 'set')).toThrow('store_failed')
  expect(locks.due(() => true)).toHaveLength(MOST)
})
