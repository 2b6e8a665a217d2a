// What a store in memory knows of receipts, when it does not keep all of it.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { concurrent, fixedWindow, memoryStore } from '../../src/index.ts'
import { Notes } from '../../src/stores/note.ts'
import { Charge, createPolicy, perform, type ReceiptUse } from '../../src/stores/store.ts'
import { virtualClock } from '../../src/testing.ts'
import { shared } from '../../src/util/copies.ts'
import { warningsOf } from '../support/http.ts'
import { keyed } from '../support/limiters.ts'

const START = 1_700_000_000_000
const MOST = 3

const store = memoryStore()
const tokens = createPolicy('api', fixedWindow({ quota: 1000, window: '1d' }), store, store)
const slots = createPolicy('api', concurrent({ quota: 1000, expiresAfter: '1h' }), store, store)

const step = fc.record({
  kind: fc.constantFrom('settle', 'settle', 'settle', 'release', 'renew', 'make', 'make', 'make', 'pass'),
  /** Counts from the newest receipt. */
  which: fc.nat({ max: 7 }),
  life: fc.constantFrom(50, 1000),
})

it(
  'an old receipt changes nothing after 100,000 newer ones, which is a warning, and a new one settles',
  { timeout: 30_000 },
  async () => {
    const clock = virtualClock(START)
    const place = memoryStore({ clock })
    const limits = fixedWindow({ quota: 1e9, window: '1d' })
    const limiter = keyed(place, limits, 'api')
    const policy = createPolicy('api', limits, place, place)
    const [first, unused] = [limiter.consume('first', { cost: 100 }), limiter.consume('unused', { cost: 100 })]
    const receipts = [first, unused].map((decision) => limiter.receipt(decision))
    limiter.settle(receipts[0]!, 7)
    clock.advance(1)
    const charge = new Charge(policy, 'other', 1)
    perform(place, { kind: 'consume', charges: [charge], fresh: false })
    const until = START + 3_600_000
    for (let i = 0; i < 100_000; i++) {
      const receipt = { id: String(i), until, keep: until, settles: true, releases: false, isRepeated: false }
      perform(place, { kind: 'adjust', charges: [charge], units: [0], receipt })
    }
    const used = (key: string): number => limiter.peek(key, { cost: 0 }).limits[0]!.used
    // As in a process that has forgotten its own decisions.
    shared('receipts', () => ({ decisions: new Map<string, unknown>() })).decisions = new Map()
    const codes = await warningsOf(() => receipts.forEach((receipt) => limiter.settle(receipt, 50)))
    // Nobody knows any more which of them was settled.
    expect([used('first'), used('unused'), codes]).toEqual([7, 100, ['SLUICE_FORGOTTEN_RECEIPTS']])
    clock.advance(1)
    limiter.settle(limiter.receipt(limiter.consume('new', { cost: 100 })), 50)
    expect(used('new')).toBe(50)
  },
)

it('a receipt does each thing at most once when few notes are kept, and always if few others were used since', () => {
  const counts = { done: 0, repeated: 0, refused: 0 }
  const property = fc.property(fc.array(step, { minLength: 20, maxLength: 100 }), (steps) => {
    const notes = new Notes(MOST)
    const receipts: {
      id: string
      until: number
      at: number
      slotsAt: number
      did: Set<string>
      others: Set<string>
    }[] = []
    let now = START
    for (const { kind, which, life } of steps) {
      now += kind === 'pass' ? life : 1
      if (kind === 'make')
        receipts.push({
          id: String(receipts.length),
          until: now + life,
          at: now * 1000,
          slotsAt: now * 1000,
          did: new Set(),
          others: new Set(),
        })
      const receipt = receipts.at(-1 - which)
      if (receipt === undefined || kind === 'make' || kind === 'pass') continue
      const charges = [new Charge(tokens, 'k', 1), new Charge(slots, 'k', 1)]
      charges.forEach((charge, i) => charge.markCharged([receipt.at, receipt.slotsAt][i]!, 1))
      const isSettled = kind === 'settle'
      const use: ReceiptUse = {
        id: receipt.id,
        until: receipt.until,
        keep: receipt.until,
        settles: isSettled,
        releases: kind === 'release',
        isRepeated: false,
      }
      const renewed: { at: number; units: number }[] = []
      let isDone = false
      const operation =
        kind === 'renew'
          ? ({ kind, charges: charges.slice(1), renewed, receipt: use } as const)
          : ({ kind: 'adjust', charges, units: [isSettled ? 5 : 0, isSettled ? 0 : -1], receipt: use } as const)
      notes.perform(operation, now * 1000, () => {
        isDone = true
        renewed[0] = { at: now * 1000, units: 1 }
      })
      expect(notes.size).toBeLessThanOrEqual(MOST)
      const isPast = now >= receipt.until || receipt.did.has(kind === 'renew' ? 'release' : kind)
      if (isPast) expect(isDone).toBe(false)
      else if (receipt.others.size < MOST) expect(isDone).toBe(true)
      expect(use.isRepeated).toBe(kind !== 'release' && !isDone)
      counts[isDone ? 'done' : isPast ? 'repeated' : 'refused']++
      if (!isDone) continue
      if (kind === 'renew') receipt.slotsAt = now * 1000
      else receipt.did.add(kind)
      for (const each of receipts) each.others.add(receipt.id)
      receipt.others.clear()
    }
  })
  fc.assert(property, { numRuns: 400 })
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(50)
})
