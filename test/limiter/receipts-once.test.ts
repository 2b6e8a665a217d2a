import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type Clock,
  concurrent,
  createLimiter,
  type Decision,
  fixedWindow,
  type Limit,
  type Limiter,
  memoryStore,
} from '../../src/index.ts'
import { rowStore } from '../../src/extend.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import type { Store } from '../../src/stores/store.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { shared } from '../../src/util/copies.ts'
import { connectedStore } from '../support/connected-store.ts'
import { mapRows } from '../support/map-rows.ts'
import { redisForAll } from '../support/redis-tests.ts'

/**
 * Several processes use receipts in any order, each as often as it likes, and what is used is compared with a model in which each decision is settled
 * once and released once, and a renewal moves its slots.
 */
const START = 1_700_000_000_000
const LEASE = 60_000
const LIFE = 600_000
const PROCESSES = 3
const QUOTA = { tokens: 1_000_000, slots: 5 }

const known = shared('receipts', () => ({ decisions: new Map<string, unknown>() }))

const step = fc.record({
  kind: fc.constantFrom('consume', 'settle', 'release', 'refund', 'renew', 'receipt', 'restart', 'advance', 'long'),
  process: fc.nat({ max: PROCESSES - 1 }),
  which: fc.nat({ max: 5 }),
  text: fc.nat({ max: 3 }),
  amount: fc.nat({ max: 9 }),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

/** What a decision should have come to. */
interface Held {
  readonly decision: Decision
  readonly texts: { readonly text: string; readonly until: number }[]
  /** Until when each process can use it. Process 0 has decided. */
  readonly until: (number | undefined)[]
  tokens: number
  slots: number
  at: number
  isSettled: boolean
  isReleased: boolean
}

function slotsAt(held: Held, now: number): number {
  if (now >= held.at + LEASE) held.slots = 0
  return held.isReleased ? 0 : held.slots
}

/** Limiters of processes that count in one place. */
function limitersOf(storeOf: (process: number) => Store): Limiter<string>[] {
  const limits = [
    fixedWindow({ quota: QUOTA.tokens, window: '365d', name: 'tokens' }),
    concurrent({ quota: QUOTA.slots, expiresAfter: LEASE, name: 'slots' }),
  ]
  const cost = (key: string, { name }: Limit): number => (name === 'tokens' ? 100 : 1 + (key.length % 2))
  const common = { keyer: (key: string) => key, limits, cost, shared: true, receiptFor: LIFE }
  return Array.from({ length: PROCESSES }, (_, process) => createLimiter({ ...common, store: storeOf(process) }))
}

/** Runs the steps in processes that count in one place. */
async function run(limiters: readonly Limiter<string>[], clock: VirtualClock, steps: readonly Step[]): Promise<void> {
  const memories = limiters.map(() => new Map<string, unknown>())
  const decisions: Held[] = []
  const now = (): number => clock.now()

  async function consume(key: string): Promise<void> {
    const decision = await limiters[0]!.consume(key)
    if (!decision.allowed) return
    const [tokens, slots] = decision.limits
    const until = now() + LIFE
    const texts = [{ text: limiters[0]!.receipt(decision), until }]
    const charged = { tokens: tokens!.cost, slots: slots!.cost, at: now() }
    decisions.push({ decision, texts, until: [until], ...charged, isSettled: false, isReleased: false })
  }

  async function use(each: Step, held: Held): Promise<void> {
    const { kind, process, amount } = each
    const { text, until } = held.texts[each.text % held.texts.length]!
    const limiter = limiters[process]!
    const given = process === 0 && amount % 2 === 0 ? held.decision : text
    // A text makes what its process knows last as long as the text.
    const usable = typeof given === 'string' ? Math.max(held.until[process] ?? 0, until) : held.until[process]!
    const isOver = typeof given === 'string' ? until <= now() : kind === 'receipt' && usable <= now()
    const work = async (): Promise<unknown> => {
      if (kind === 'renew') return limiter.renew(given)
      if (kind === 'receipt') return limiter.receipt(given)
      if (kind === 'refund') return limiter.refund(given)
      return kind === 'release' ? limiter.release(given) : limiter.settle(given, amount * 30)
    }
    if (isOver) return expect(work()).rejects.toMatchObject({ code: 'EXPIRED_RECEIPT' })
    const answer = await work()
    held.until[process] = usable
    if (usable <= now()) return
    if (kind === 'receipt') {
      held.texts.push({ text: answer as string, until: usable })
    } else if (kind === 'renew') {
      const isHeld = slotsAt(held, now()) > 0
      expect(answer).toBe(isHeld)
      if (!isHeld) return
      held.at = now()
      held.until[process] = Math.max(usable, now() + LIFE)
    } else {
      if (kind !== 'release' && !held.isSettled) {
        held.isSettled = true
        held.tokens = kind === 'refund' ? 0 : amount * 30
      }
      if (kind !== 'settle') held.isReleased = true
    }
  }

  for (const each of steps) {
    known.decisions = memories[each.process]!
    if (each.kind === 'advance') clock.advance(7000 * each.amount)
    else if (each.kind === 'long') clock.advance(LIFE / 2)
    else if (each.kind === 'restart' && each.process > 0) {
      memories[each.process] = new Map()
      for (const held of decisions) held.until[each.process] = undefined
    } else if (each.kind === 'consume') {
      known.decisions = memories[0]!
      await consume('ab'.slice(each.amount % 2))
    } else if (each.kind !== 'restart' && decisions.length > 0)
      await use(each, decisions[each.which % decisions.length]!)
    await compare()
  }

  async function compare(): Promise<void> {
    for (const key of ['ab', 'b']) {
      const own = decisions.filter(({ decision }) => decision.limits[0]!.key === key)
      const found = (await limiters[0]!.peek(key, { cost: 0 })).limits.map(({ used }) => used)
      const tokens = own.reduce((sum, held) => sum + held.tokens, 0)
      const slots = own.reduce((sum, held) => sum + slotsAt(held, now()), 0)
      if (found[0] !== tokens || found[1] !== slots) expect(found).toEqual([tokens, slots])
    }
  }
}

const steps = fc.array(step, { minLength: 3, maxLength: 40, size: 'max' })
const runs = Number(process.env['RUNS'] ?? 100)

/** What one process has decided, another one has renewed, and a third one settles. */
const RENEWED = 'consume, advance amount 8, renew by 1, receipt by 1, settle by 2 amount 3'
/** The end of all receipts. */
const LATER = 'long, advance amount 9, advance amount 9, advance amount 9, advance amount 9'

/** Orders that a search seldom finds. */
const orders: Readonly<Record<string, string>> = {
  'a release with the receipt from before a renewal, beside a slot of the same tick':
    'consume, consume, advance amount 2, renew by 1, release by 2, release by 1',
  'a release by two processes, beside a slot of the same tick': 'consume, consume, release by 1, release by 2',
  'two renewals with one receipt, beside a slot of the same tick':
    'consume, consume, advance amount 2, renew by 1, advance amount 2, renew by 2, advance amount 5',
  'a settlement after the end of the receipt from before a renewal': `${RENEWED}, restart by 2, ${LATER}, settle by 2 amount 5 text 1`,
  'a receipt that is made from the one of a renewal, in a process that has used the earlier one': `${RENEWED}, ${LATER}, receipt by 2 text 1`,
}

const WORDS = /^(?<kind>\w+)(?: by (?<process>\d))?(?: amount (?<amount>\d))?(?: text (?<text>\d))?$/

function stepOf(words: string): Step {
  const { kind, process = 0, amount = 0, text = 0 } = WORDS.exec(words)!.groups!
  return { kind: kind as Step['kind'], process: Number(process), which: 0, text: Number(text), amount: Number(amount) }
}

describe('receipts that several processes use in any order', () => {
  const redis = redisForAll()
  const clients: Redis[] = []
  beforeAll(() => {
    for (let i = 0; i < PROCESSES; i++) clients.push(new Redis(redis.server.port))
  })
  afterAll(() => clients.forEach((client) => client.disconnect()))
  let turn = 0

  /** Each returns what makes the store of a process, on one place. */
  const places: Readonly<Record<string, (clock: Clock) => (process: number) => Store>> = {
    memory(clock) {
      const store = memoryStore({ clock })
      return () => store
    },
    rows(clock) {
      const database = mapRows(clock)
      return () => rowStore(database, { clock })
    },
    'another process'(clock) {
      const inner = memoryStore({ clock })
      return () => connectedStore(inner, { clock })
    },
    Redis(clock) {
      const prefix = `run ${turn++} `
      return (process) => redisStore(clients[process]!, { clock, prefix })
    },
  }

  describe.each(Object.keys(places))('in %s', (place) => {
    const test = (list: readonly Step[]): Promise<void> => {
      const clock = virtualClock(START)
      return run(limitersOf(places[place]!(clock)), clock, list)
    }

    it('settle and release once', async () => {
      const numRuns = place === 'memory' || place === 'rows' ? runs : runs / 2
      await fc.assert(fc.asyncProperty(steps, test), { numRuns })
    })

    it('settle and release once when several use them at the same moment', async () => {
      const limiters = limitersOf(places[place]!(virtualClock(START)))
      const first = limiters[0]!
      const texts: string[] = []
      for (let i = 0; i < QUOTA.slots; i++) texts.push(first.receipt(await first.consume('ab')))
      const uses: unknown[] = []
      for (const limiter of limiters) {
        known.decisions = new Map()
        for (const text of texts) uses.push(limiter.settle(text, 7), limiter.release(text))
      }
      await Promise.all(uses)
      expect((await first.peek('ab', { cost: 0 })).limits).toMatchObject([{ used: 7 * texts.length }, { used: 0 }])
    })

    it.each(Object.entries(orders))('%s', async (_, list) => {
      await test(list.split(', ').map(stepOf))
    })
  })
})
