// Slots of `concurrent` against the obvious model, a list of what runs, in memory, in rows and on Redis.
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  concurrent,
  createLimiter,
  everyone,
  denyCache,
  fixedWindow,
  guard,
  type Decision,
  type Limiter,
  type LostSlots,
  memoryStore,
  type OnSlotLost,
  perMinute,
  stack,
  type Store,
} from '../../src/index.ts'
import { rowStore } from '../../src/extend.ts'
import { dropSlots, holdSlots } from '../../src/limiter/slots.ts'
import { perform, type Place } from '../../src/stores/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { recordWarnings } from '../../src/testing/warnings.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { mapDatabase } from '../../examples/custom-store.ts'
import { afterTest } from '../support/after-test.ts'
import { connectedStore } from '../support/connected-store.ts'
import { faultyStore } from '../support/faulty-store.ts'
import { keyed } from '../support/limiters.ts'
import { redisForAll } from '../support/redis-tests.ts'

const RUNS = Number(process.env['RUNS'] ?? 50)
const LEASE = 10_000

interface Input {
  readonly quota: number
}

/** What one request holds. */
interface Slots {
  readonly units: number
  /** The quota of its limit. */
  readonly quota: number
  until: number
  /** When the slots were taken, or renewed. */
  since: number
}

type Step =
  | { readonly kind: 'take'; readonly quota: number; readonly cost: number }
  | { readonly kind: 'release' | 'renew' | 'refund' | 'settle' | 'receipt'; readonly which: number }
  | { readonly kind: 'reset' }
  | { readonly kind: 'lose' }
  | { readonly kind: 'penalize' }
  | { readonly kind: 'pause'; readonly ms: number }

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('take' as const),
        // The limit changes now and then.
        quota: fc.oneof(
          { weight: 6, arbitrary: fc.constant(3) },
          { weight: 1, arbitrary: fc.integer({ min: 1, max: 5 }) },
        ),
        cost: fc.oneof({ weight: 5, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.nat({ max: 4 }) }),
      }),
    },
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constantFrom('release', 'renew', 'renew', 'refund', 'settle', 'receipt'),
        which: fc.nat({ max: 6 }),
      }),
    },
    { weight: 1, arbitrary: fc.constantFrom<Step>({ kind: 'reset' }, { kind: 'lose' }, { kind: 'penalize' }) },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('pause' as const),
        ms: fc.oneof(fc.constant(0.001), fc.nat({ max: LEASE }), fc.constantFrom(LEASE - 1, LEASE, LEASE / 3)),
      }),
    },
  ),
  { maxLength: 60, size: 'max' },
)

/** Runs steps on a limiter, and compares each with the model. `lose`: its store loses what it has counted. */
async function compare(
  { limiter, lose, lost }: ReturnType<typeof worldOn>,
  clock: VirtualClock,
  list: readonly Step[],
): Promise<void> {
  const running = new Map<Decision, Slots>()
  const taken = new Map<Decision, Slots>()
  const released = new Set<Decision>()
  const noted = new Set<Decision>()
  const told: LostSlots[] = []
  /** The latest reset, and until when the store knows of it. */
  let [resetAt, knownUntil] = [-Infinity, 0]
  /** The quota of the limit that wrote the state. */
  let quotaThere = 0
  const used = (): number => {
    for (const [decision, { until }] of running) if (until <= clock.now()) running.delete(decision)
    return [...running.values()].reduce((sum, { units }) => sum + units, 0)
  }
  const renewed = (decision: Decision, slots: Slots): boolean => {
    const isFree = used() === 0
    if (isFree) quotaThere = slots.quota
    const isReset = clock.now() < knownUntil && resetAt >= slots.since
    const isTaken = !noted.has(decision) && !isReset && used() + slots.units <= quotaThere
    if (!running.has(decision) && !isTaken) return false
    slots.since = clock.now()
    slots.until = clock.now() + LEASE
    running.set(decision, slots)
    return true
  }
  for (const step of list) {
    if (step.kind === 'pause') clock.advance(step.ms)
    // It takes no slots.
    else if (step.kind === 'penalize') await limiter.penalize({ quota: 3 }, 2)
    else if (step.kind === 'reset' || step.kind === 'lose') {
      if (step.kind === 'lose') knownUntil = 0
      else {
        resetAt = clock.now()
        knownUntil = Math.max(knownUntil, ...Array.from(running.values(), ({ until }) => until))
      }
      await (step.kind === 'lose' ? lose() : limiter.reset({ quota: 3 }))
      running.clear()
      // A slot that is taken in the same microsecond cannot be told from one before.
      clock.advance(0.001)
    } else if (step.kind === 'take') {
      const { quota, cost } = step
      const before = used()
      const decision = await limiter.consume({ quota }, { cost })
      const isAllowed = cost === 0 || before + cost <= quota
      if (decision.allowed !== isAllowed) expect.unreachable(`${before} of ${quota} are used`)
      const wait = isAllowed ? 0 : cost > quota ? Infinity : 1000
      if (decision.retryAfter !== wait) expect(decision.retryAfter).toBe(wait)
      if (decision.allowed && cost > 0) {
        const slots = { units: cost, quota, until: clock.now() + LEASE, since: clock.now() }
        running.set(decision, slots)
        taken.set(decision, slots)
      }
      if (cost > 0 && used() > 0) quotaThere = quota
      expect(decision.limits[0]!.remaining).toBe(Math.max(0, quota - used()))
    } else {
      const [decision, slots] = [...taken].at(-1 - step.which) ?? []
      if (decision === undefined || slots === undefined) continue
      if (step.kind === 'renew') {
        used()
        const isHeld = !released.has(decision) && renewed(decision, slots)
        expect(await limiter.renew(decision)).toBe(isHeld)
        if (!isHeld && !released.has(decision)) {
          const { limiter, limit } = decision.limits[0]!
          told.push({ decision, limiter, limit, key: 'key', slots: slots.units })
        }
        // Slots that are lost stay lost.
        if (!isHeld) taken.delete(decision)
      } else if (step.kind === 'settle') await limiter.settle(decision, 7)
      else if (step.kind === 'receipt') {
        if (released.has(decision)) continue
        limiter.receipt(decision)
        noted.add(decision)
      } else {
        await limiter[step.kind](decision)
        released.add(decision)
        running.delete(decision)
      }
    }
    // Called thousands of times: `expect` takes longer than the step.
    if (!isDeepStrictEqual(lost, told)) expect(lost).toEqual(told)
    const { limits } = await limiter.peek({ quota: 5 }, { cost: 0 })
    const expected = 5 - Math.min(5, used())
    if (limits[0]!.remaining !== expected) expect(limits[0]!.remaining, JSON.stringify(step)).toBe(expected)
  }
}

/** A limiter on a store that can lose what it has counted, and the slots that were reported as lost. */
function worldOn(make: () => Store) {
  let inner = make()
  const place: Place = { partOf: () => '', joins: () => false }
  const store = { ...inner, place, run: (...asked: Parameters<Store['run']>) => inner.run(...asked) } as Store
  const lost: LostSlots[] = []
  return { limiter: limiterOn(store, (each) => lost.push(each)), lose: () => void (inner = make()), lost }
}

function limiterOn(store: Store, onSlotLost: OnSlotLost = () => undefined): Limiter<Input> {
  // `strict` has no meaning for slots: a denied request takes none.
  const versions = [1, 2, 3, 4, 5].map((quota) =>
    concurrent({ quota, expiresAfter: LEASE, name: 'slots', strict: quota === 3 }),
  )
  return createLimiter<Input>({
    name: randomUUID(),
    keyer: () => 'key',
    limits: ({ quota }) => versions[quota - 1]!,
    store,
    onSlotLost,
  })
}

const redis = redisForAll()
const stores: [string, (clock: VirtualClock) => Store][] = [
  ['memory', (clock) => memoryStore({ clock })],
  ['rows', (clock) => rowStore(mapDatabase(clock), { clock })],
  ['another process', (clock) => connectedStore(memoryStore({ clock }), { clock })],
  ['Redis', (clock) => redisStore(redis.client, { clock, prefix: randomUUID() })],
]

it.each(stores)('slots are those of the requests that run in %s', async (_, storeOn) => {
  const property = fc.asyncProperty(steps, async (list) => {
    const clock = virtualClock()
    const world = worldOn(() => storeOn(clock))
    await compare(world, clock, list)
  })
  await fc.assert(property, { numRuns: RUNS })
})

it('slots are all or nothing with other limits, whose wait comes first', () => {
  const clock = virtualClock()
  const rate = fixedWindow({ quota: 1, window: '1s', name: 'rate' })
  const limits = [concurrent({ quota: 1, expiresAfter: '1m', retryAfter: '3s' }), rate]
  const limiter = keyed(memoryStore({ clock }), limits)
  const first = limiter.consume('a')
  const denied = limiter.consume('a')
  expect(denied.allowed).toBe(false)
  expect(denied.binding!.limit.name).toBe('rate')
  limiter.release(first)
  // The other limit still denies, so that no slot is taken.
  expect(limiter.consume('a').limits[0]!.used).toBe(0)
  clock.advance(1000)
  expect(limiter.consume('a').allowed).toBe(true)
})

describe('a wrapper of a store', () => {
  it('does not remember a denial by slots, also through a guard', async () => {
    const store = guard(denyCache(redisStore(redis.client)))
    const name = randomUUID()
    const limits = [concurrent(1), perMinute(100)]
    const limiter = keyed(store, limits, name)
    const elsewhere = keyed(redisStore(redis.client), limits, name)
    const first = await elsewhere.consume('a')
    expect((await limiter.consume('a')).allowed).toBe(false)
    await elsewhere.release(first)
    const second = await limiter.consume('a')
    expect(second.allowed).toBe(true)
    expect(await limiter.renew(second)).toBe(true)
    await limiter.release(second)
    expect((await elsewhere.consume('a')).allowed).toBe(true)
    await limiter.reset('a')
    await store.close()
  })

  /** A guard of a store whose answers to renewals come late, and a limit of one slot. */
  function lateWorld(lease: '600ms' | '1m', late: () => number): { store: Store; limiter: Limiter<string> } {
    const store = guard(lateStore(late), { deadline: '50ms', onChange: () => undefined })
    const limits = concurrent({ quota: 1, expiresAfter: lease })
    return { store, limiter: keyed(store, limits, randomUUID()) }
  }

  /** A store that answers a renewal so many milliseconds later. */
  function lateStore(late: () => number): AsyncStore {
    const memory = memoryStore()
    const inner = remoteStore(memory)
    return {
      ...inner,
      run(operation, reply) {
        if (operation.kind !== 'renew') return inner.run(operation, reply)
        const renewed: (typeof operation.renewed)[number][] = []
        perform(memory, { ...operation, renewed })
        setTimeout(() => {
          operation.renewed.push(...renewed)
          reply.answered()
        }, late())
        return () => undefined
      },
    }
  }

  it('keeps the slots of a renewal whose answer comes after the deadline of a guard', async () => {
    let late = 120
    const { store, limiter } = lateWorld('600ms', () => late)
    const running = await limiter.consume('a')
    await pause(5)
    await limiter.renew(running)
    late = 0
    for (let i = 0; i < 5; i++) {
      await pause(200)
      expect(await limiter.renew(running)).toBe(true)
    }
    expect((await limiter.consume('a')).allowed).toBe(false)
    await store.close()
  })

  it('gives back slots that were released before the late answer to their renewal', async () => {
    const { store, limiter } = lateWorld('1m', () => 120)
    const running = await limiter.consume('a')
    await pause(5)
    await limiter.renew(running)
    await limiter.release(running)
    await vi.waitFor(async () => expect((await limiter.consume('a')).allowed).toBe(true), 5000)
    await store.close()
  })

  it('gives slots back in a second call when the first one has failed', async () => {
    let isAway = false
    const store = faultyStore(() => (isAway ? new Error('no connection') : undefined))
    const limiter = keyed(store, concurrent({ quota: 1, expiresAfter: '1m' }), randomUUID())
    const running = await limiter.consume('a')
    isAway = true
    const { codes, messages, stop } = recordWarnings()
    await limiter.release(running)
    await limiter.release(running)
    stop()
    expect([codes, messages]).toEqual([['SLUICE_OUTCOME'], [expect.stringContaining('no connection')]])
    isAway = false
    await limiter.release(running)
    expect((await limiter.consume('a')).allowed).toBe(true)
  })
})

it('renewal by itself goes on for the other limits when the slots of one were reset', async () => {
  const store = memoryStore()
  const [own, all] = ['own', 'all'].map((name) =>
    createLimiter<string>({
      name: `${randomUUID()} ${name}`,
      keyer: (key) => (name === 'own' ? key : name),
      limits: concurrent({ name, quota: 1, expiresAfter: '300ms' }),
      store,
    }),
  )
  const both = stack(own!, all!)
  const running = both.consume('a')
  holdSlots(running, (each) => both.renew(each))
  afterTest(() => dropSlots(running))
  await pause(20)
  own!.reset('a')
  await pause(800)
  expect(both.consume('b').allowed).toBe(false)
})

it('in a Worker, a decision that is held twice has one timer', async () => {
  vi.stubGlobal('navigator', { userAgent: 'Cloudflare-Workers' })
  vi.resetModules()
  afterTest(() => vi.resetModules())
  vi.useFakeTimers()
  const slots = await import('../../src/limiter/slots.ts')
  const limiter = createLimiter({ name: randomUUID(), keyer: everyone, limits: concurrent(1), store: memoryStore() })
  const running = limiter.consume(undefined)
  // During its delay, and while it is handled.
  slots.holdSlots(running, () => true)
  slots.holdSlots(running, () => true)
  expect(vi.getTimerCount()).toBe(1)
  slots.dropSlots(running)
  expect(vi.getTimerCount()).toBe(0)
})
