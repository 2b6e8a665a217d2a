// While a store is away, decisions in this process count the slots that the store has given to this process.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  type AsyncStore,
  concurrent,
  createLimiter,
  type Decision,
  guard,
  memoryStore,
  SluiceError,
} from '../../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { remoteStore } from '../../../src/testing/later-store.ts'
import type { Operation } from '../../../src/extend.ts'
import { faultyStore } from '../../support/faulty-store.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'

const RUNS = Number(process.env['RUNS'] ?? 100)
const QUOTA = 3
const LEASE = 10_000

warningsOfEachTest()

type Step =
  | { readonly kind: 'take' | 'turn' | 'reset' }
  | { readonly kind: 'release' | 'renew'; readonly which: number }
  | { readonly kind: 'pause'; readonly ms: number }

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 7, arbitrary: fc.constant<Step>({ kind: 'take' }) },
    { weight: 2, arbitrary: fc.constant<Step>({ kind: 'turn' }) },
    { weight: 1, arbitrary: fc.constant<Step>({ kind: 'reset' }) },
    {
      weight: 5,
      arbitrary: fc.record({ kind: fc.constantFrom('release' as const, 'renew' as const), which: fc.nat({ max: 4 }) }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('pause' as const), ms: fc.nat({ max: LEASE }) }) },
  ),
  { maxLength: 40, size: 'max' },
)

/** The slots of one request: until when they count in the store, and in this process. */
interface Slot {
  inStore: number
  here: number
  /** When they were taken in this process alone, or in the store, or renewed there. */
  since: number
  isLocal: boolean
}

/** A store that finds every key busy while `isAway` is true. Such a key is decided here, and the next one asks again, so no timer is needed. */
function switchedStore(clock?: VirtualClock): { store: AsyncStore; isAway: boolean } {
  const busy = new SluiceError('STORE_BUSY', 'locked')
  const isBusy = (kind: Operation['kind']): boolean => state.isAway && kind !== 'forget'
  const remote = remoteStore(memoryStore(clock && { clock }))
  const state = { isAway: false, store: faultyStore(({ kind }) => (isBusy(kind) ? busy : undefined), remote) }
  return state
}

/** Runs steps on a guarded store whose decisions fail by turns, and compares each with a list of slots. */
async function compare(list: readonly Step[], localShare: number): Promise<void> {
  const clock = virtualClock()
  const inner = switchedStore(clock)
  const store = guard(inner.store, { localShare, deadline: '1m', onChange: () => undefined })
  const limits = concurrent({ quota: QUOTA, expiresAfter: LEASE })
  const limiter = createLimiter<string>({ keyer: (key) => key, limits, store, onSlotLost: () => undefined })
  const slots = new Map<Decision, Slot>()
  const share = Math.max(1, Math.floor(QUOTA * localShare))
  const count = (where: 'inStore' | 'here'): number =>
    [...slots.values()].filter((slot) => slot[where] > clock.now()).length
  /** The latest reset, and until when the store knows of it. */
  let [resetAt, knownUntil] = [-Infinity, 0]
  /** Renews a slot in the store. Returns whether it has the slot. */
  const renewIn = (slot: Slot): boolean => {
    const isReset = clock.now() < knownUntil && (slot.isLocal || resetAt >= slot.since)
    const isHeld = slot.inStore > clock.now() || (!isReset && count('inStore') < QUOTA)
    slot.isLocal &&= !isHeld
    if (isHeld) slot.since = clock.now()
    if (isHeld) slot.inStore = slot.here = clock.now() + LEASE
    return isHeld
  }
  for (const step of list) {
    // The store and this process never see two steps in one microsecond.
    clock.advance(0.001)
    if (step.kind === 'pause') clock.advance(step.ms)
    else if (step.kind === 'turn') inner.isAway = !inner.isAway
    else if (step.kind === 'reset') {
      resetAt = clock.now()
      knownUntil = Math.max(knownUntil, ...Array.from(slots.values(), ({ inStore }) => inStore))
      await limiter.reset('a')
      for (const slot of slots.values()) slot.inStore = slot.here = 0
    } else if (step.kind === 'take') {
      const isAdmitted = inner.isAway ? count('here') < share : count('inStore') < QUOTA
      const decision = await limiter.consume('a')
      expect([decision.allowed, decision.degraded]).toEqual([isAdmitted, inner.isAway ? 'local' : undefined])
      const until = clock.now() + LEASE
      const isLocal = inner.isAway
      if (isAdmitted) slots.set(decision, { inStore: isLocal ? 0 : until, here: until, since: clock.now(), isLocal })
    } else if ('which' in step) {
      const [decision, slot] = [...slots].at(-1 - step.which) ?? []
      if (decision === undefined || slot === undefined) continue
      // What the store does during an outage is not the subject.
      if (inner.isAway && !slot.isLocal && step.kind === 'release') continue
      // A slot that is gone here is taken again by the same rules as in the store.
      if (slot.here <= clock.now() && (slot.isLocal || inner.isAway) && step.kind === 'renew') continue
      if (step.kind === 'release') {
        await limiter.release(decision)
        slots.delete(decision)
      } else {
        await (async () => limiter.renew(decision))().catch(() => undefined)
        if (slot.here > clock.now()) slot.here = clock.now() + LEASE
        if (inner.isAway) continue
        const isLocal = slot.isLocal
        // Slots that are lost stay lost.
        if (!renewIn(slot) && !isLocal) slots.delete(decision)
      }
    }
  }
  await store.close()
}

it.each([1, 0.4])('decisions in this process count what it holds, with a local share of %d', async (localShare) => {
  await fc.assert(
    fc.asyncProperty(steps, (list) => compare(list, localShare)),
    { numRuns: RUNS },
  )
})

it('slots of the store count in an outage, also beyond the quota, until their requests end', async () => {
  const inner = switchedStore()
  const store = guard(inner.store, { deadline: '1m' })
  const limiter = createLimiter<string>({ keyer: (key) => key, limits: concurrent(2), store })
  inner.isAway = true
  const local = await limiter.consume('a')
  inner.isAway = false
  const held = [await limiter.consume('a'), await limiter.consume('a')]
  expect(held.map(({ degraded }) => degraded)).toEqual([undefined, undefined])
  inner.isAway = true
  await limiter.release(local)
  expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: 'local' })
  await limiter.release(held[0]!)
  expect((await limiter.consume('a')).allowed).toBe(true)
  await store.close()
})

it('a slot that was taken in an outage is a slot of the store after its renewal, and is given back there', async () => {
  const inner = switchedStore()
  const store = guard(inner.store, { deadline: '1m' })
  const limiter = createLimiter<string>({ keyer: (key) => key, limits: concurrent(1), store })
  inner.isAway = true
  const decision = await limiter.consume('a')
  inner.isAway = false
  expect(await limiter.renew(decision)).toBe(true)
  expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: undefined })
  await limiter.release(decision)
  expect(await limiter.consume('a')).toMatchObject({ allowed: true, degraded: undefined })
  await store.close()
})

it('slots that were taken in an outage are renewed, and given back once, in this process', async () => {
  const store = guard(
    faultyStore(() => new Error('away')),
    { onChange: () => undefined },
  )
  const limiter = createLimiter<string>({ keyer: (key) => key, limits: concurrent(2), store })
  const [first, second] = [await limiter.consume('a'), await limiter.consume('a')]
  expect([first.degraded, first.allowed, second.allowed]).toEqual(['local', true, true])
  expect((await limiter.consume('a')).allowed).toBe(false)
  expect(await limiter.renew(first)).toBe(true)
  for (let i = 0; i < 2; i++) await limiter.release(first)
  expect([(await limiter.consume('a')).allowed, (await limiter.consume('a')).allowed]).toEqual([true, false])
  await store.close()
})

it('a slot that the store has renewed counts in an outage as long as in the store', async () => {
  const clock = virtualClock()
  const inner = switchedStore(clock)
  const store = guard(inner.store, { deadline: '1m' })
  const limits = concurrent({ quota: 1, expiresAfter: LEASE })
  const limiter = createLimiter<string>({ keyer: (key) => key, limits, store })
  const running = await limiter.consume('a')
  clock.advance(0.6 * LEASE)
  expect(await limiter.renew(running)).toBe(true)
  clock.advance(0.6 * LEASE)
  inner.isAway = true
  expect(await limiter.consume('a')).toMatchObject({ allowed: false, degraded: 'local' })
  await store.close()
})
