import { beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  concurrent,
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  guard,
  leakyBucket,
  type Limit,
  type Limiter,
  memoryStore,
  perSecond,
  slidingWindowLog,
  stack,
  type Store,
  type SyncStore,
  tokenBucket,
} from '../../src/index.ts'
import type { Charge } from '../../src/extend.ts'
import { waitingRequests } from '../../src/limiter/waiting.ts'
import { type Operation, perform } from '../../src/stores/store.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { virtualClock } from '../../src/testing/virtual-clock.ts'
import { recordWarnings } from '../support/guarded.ts'
import { warningsOf } from '../support/http.ts'
import { faultyStore } from '../support/faulty-store.ts'

/** Milliseconds since the test started, on the fake clock of timers and store. */
let began = 0
const since = (): number => Date.now() - began
const key = 'ada'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_767_225_600_000 })
  began = Date.now()
})

function limiterOf(limits: Limit | readonly Limit[], store?: SyncStore): Limiter<string, Decision>
function limiterOf(limits: Limit | readonly Limit[], store: AsyncStore): Limiter<string, Promise<Decision>>
function limiterOf(limits: Limit | readonly Limit[], store: Store = memoryStore({ clock: Date })): Limiter<string> {
  return createLimiter({ keyer: (input: string) => input, limits, store })
}

/** A store that answers later. Its adjustments can fail. */
function later(failsToAdjust = false): AsyncStore {
  const fails = ({ kind }: Operation): boolean => failsToAdjust && kind === 'adjust'
  const store = remoteStore(memoryStore({ clock: Date }))
  return faultyStore((operation) => (fails(operation) ? new Error('down') : undefined), store)
}

/** Records when a promise settles, and with what. */
function outcome(promise: Promise<Decision>): {
  at?: number
  decision?: Decision
  error?: { code?: string; cause?: unknown }
} {
  const seen: ReturnType<typeof outcome> = {}
  promise.then(
    (decision) => Object.assign(seen, { at: since(), decision }),
    (error: unknown) => Object.assign(seen, { at: since(), error }),
  )
  return seen
}

const tooLong = (message: string) => ({ code: 'WAIT_TOO_LONG', message: expect.stringContaining(message) as string })

describe('wait', () => {
  // 60 days are longer than the maximum of a timer.
  it.each([
    ['1h', 3_600_000],
    ['60d', 60 * 86_400_000],
  ] as const)('resolves at the retry time, and asks the store twice: %s', async (window, ms) => {
    const store = memoryStore({ clock: Date })
    const run = vi.spyOn(store, 'run')
    const limiter = limiterOf(fixedWindow({ quota: 1, window }), store)
    limiter.consume(key)
    run.mockClear()
    const waiting = outcome(limiter.wait(key))
    await vi.advanceTimersByTimeAsync(ms - 1)
    expect(waiting.at).toBeUndefined()
    await vi.advanceTimersByTimeAsync(1)
    expect(waiting.at).toBe(ms)
    expect(run).toHaveBeenCalledTimes(2)
  })

  it('admits a thousand waiters of one key in order, at the rate of the limit', async () => {
    const limiter = limiterOf(gcra({ quota: 100, window: '1s', burst: 1 }))
    const left: [number, number][] = []
    for (let i = 0; i < 1000; i++) void limiter.wait(key).then(() => left.push([i, since()]))
    await vi.advanceTimersByTimeAsync(9_990)
    expect(left).toEqual(Array.from({ length: 1000 }, (_, i) => [i, i * 10]))
    expect(vi.getTimerCount()).toBe(0)
  })

  const [empty, queue] = [{ capacity: 5, initial: 0 }, { capacity: 3 }]
  it.each<[string, Limit, used: number, costs: number[], times: number[]]>([
    [
      'for the first token of a key',
      tokenBucket({ quota: 1, window: '1s', ...empty }),
      0,
      [1, 1, 1],
      [1000, 2000, 3000],
    ],
    ['in order, also for a smaller cost', gcra({ quota: 10, window: '1s' }), 10, [8, 1], [800, 900]],
    ['for a delay', leakyBucket({ quota: 10, window: '1s', ...queue }), 0, [1, 1, 1, 1, 1], [0, 100, 200, 300, 400]],
  ])('waits %s', async (_, limit, used, costs, times) => {
    const limiter = limiterOf(limit)
    limiter.consume(key, { cost: used })
    const waiting = costs.map((cost) => outcome(limiter.wait(key, { cost })))
    await vi.advanceTimersByTimeAsync(3000)
    expect(waiting.map(({ at }) => at)).toEqual(times)
  })

  it('rejects with the error of the store, and rejects no other waiter', async () => {
    const store = memoryStore({ clock: Date })
    const limiter = limiterOf(perSecond(1), store)
    vi.spyOn(store, 'run').mockImplementationOnce((_operation, reply) => {
      reply.failed(new Error('down'))
      return undefined
    })
    await expect(limiter.wait(key)).rejects.toThrow('down')
    await expect(limiter.wait(key)).resolves.toMatchObject({ allowed: true })
  })

  it('resolves at once if a refund comes while the answer of the store is on its way', async () => {
    const memory = memoryStore({ clock: Date })
    const inner = remoteStore(memory)
    let answer: (() => void) | undefined
    let isSlow = false
    const store: AsyncStore = {
      ...inner,
      run(operation, reply) {
        if (!isSlow) return inner.run(operation, reply)
        perform(memory, operation)
        answer = () => reply.answered()
        return undefined
      },
    }
    const limiter = limiterOf(fixedWindow({ quota: 10, window: '1h' }), store)
    const all = await limiter.consume(key, { cost: 10 })
    isSlow = true
    const waiting = outcome(limiter.wait(key))
    await vi.advanceTimersByTimeAsync(10)
    isSlow = false
    await limiter.refund(all)
    answer!()
    await vi.advanceTimersByTimeAsync(1000)
    expect(waiting.decision?.allowed).toBe(true)
  })

  const waits = [-1, NaN, '5000', '5 s', null].map((maxWait) => ({ maxWait }))
  const signals = [{}, null, new AbortController()].map((signal) => ({ signal }))
  it.each([...waits, ...signals, { cost: 0.5 }, { maxwait: 5 }, 5])('refuses %o', async (options) => {
    await expect(limiterOf(perSecond(1)).wait(key, options as object)).rejects.toThrow(/: expected|has no option/)
  })
})

describe('wait rejects at once', () => {
  it('when the cost can never be admitted', async () => {
    const limiter = limiterOf(perSecond(5))
    const message = expect.stringContaining('A cost of 6 is more than limit "5-per-1s" ever admits at once') as string
    for (const waiting of [outcome(limiter.wait(key, { cost: 6 })), outcome(limiter.wait(key, { cost: 6 }))]) {
      await vi.advanceTimersByTimeAsync(0)
      const error = { code: 'NEVER_ADMITTED', message, cause: { allowed: false } }
      expect(waiting).toMatchObject({ at: 0, error })
    }
  })

  it('when maxWait cannot be met', async () => {
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '10s' }))
    limiter.consume(key)
    const [short, long] = [9_000, '10s' as const].map((maxWait) => outcome(limiter.wait(key, { maxWait })))
    await vi.advanceTimersByTimeAsync(10_000)
    const message = 'The wait would take 10000 ms, longer than maxWait, 9000 ms'
    expect(short).toMatchObject({ at: 0, error: { ...tooLong(message), cause: { retryAfter: 10_000 } } })
    expect(long).toMatchObject({ at: 10_000, decision: { allowed: true } })
  })

  it('when the waiters ahead of it make maxWait impossible', async () => {
    const limiter = limiterOf(gcra({ quota: 1, window: '1s', burst: 6 }))
    limiter.consume(key, { cost: 6 })
    const waiting = Array.from({ length: 6 }, () => outcome(limiter.wait(key, { maxWait: 3500 })))
    await vi.advanceTimersByTimeAsync(0)
    const late = 'WAIT_TOO_LONG'
    expect(waiting.map(({ error }) => error?.code)).toEqual([undefined, undefined, undefined, late, late, late])
    await vi.advanceTimersByTimeAsync(3500)
    expect(waiting.map(({ at }) => at)).toEqual([1000, 2000, 3000, 0, 0, 0])
  })

  it('or when it is its turn, if the waiters ahead of it need more than is ever admitted at once', async () => {
    const limiter = limiterOf([gcra({ quota: 1, window: '1s' }), fixedWindow({ quota: 3, window: '1m' })])
    const waiting = Array.from({ length: 6 }, () => outcome(limiter.wait(key, { maxWait: 60_500 })))
    await vi.advanceTimersByTimeAsync(0)
    expect(waiting.map(({ error }) => error)).toEqual(Array(6).fill(undefined))
    await vi.advanceTimersByTimeAsync(60_500)
    expect(waiting.map(({ at }) => at)).toEqual([0, 1000, 2000, 60_000, 60_000, 60_000])
    expect(waiting.map(({ error }) => error?.code).slice(4)).toEqual(['WAIT_TOO_LONG', 'WAIT_TOO_LONG'])
  })

  it('when the delay would exceed maxWait, and refunds what it charged', async () => {
    const limiter = limiterOf(leakyBucket({ quota: 1, window: '1s', capacity: 10 }))
    limiter.consume(key, { cost: 5 })
    await expect(limiter.wait(key, { maxWait: 4_000 })).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
    expect(limiter.peek(key, { cost: 0 }).limits[0]?.remaining).toBe(5)
  })

  it('at the latest when maxWait has passed, if other requests took the quota', async () => {
    const store = memoryStore({ clock: Date })
    const limiter = limiterOf(perSecond(1), store)
    const { limits } = limiter.consume(key)
    const waiting = outcome(limiter.wait(key, { maxWait: 1500 }))
    await vi.advanceTimersByTimeAsync(999)
    // As another process on the same store would.
    perform(store, { kind: 'forget', limiter: 'default', key })
    perform(store, { kind: 'consume', charges: limits as readonly Charge[], fresh: false })
    await vi.advanceTimersByTimeAsync(1)
    const message = 'The wait would take 1999 ms, longer than maxWait, 1500 ms'
    expect(waiting).toMatchObject({ at: 1000, error: tooLong(message) })
    expect(vi.getTimerCount()).toBe(0)
  })
})

it('wait rejects when maxWait passes before the store replies', async () => {
  const store = remoteStore(memoryStore({ clock: Date }), () => new Promise(() => undefined))
  const waiting = outcome(limiterOf(perSecond(1), store).wait(key, { maxWait: 1500 }))
  await vi.advanceTimersByTimeAsync(1502)
  expect(waiting).toMatchObject({ at: 1502, error: tooLong('Not admitted within maxWait, 1500 ms') })
})

describe('an aborted wait', () => {
  it('rejects with the signal’s reason and leaves no timer and no listener', async () => {
    const limiter = limiterOf(perSecond(1))
    limiter.consume(key)
    const abort = new AbortController()
    const remove = vi.spyOn(abort.signal, 'removeEventListener')
    const { signal } = abort
    const [first, second, third] = [{ signal }, { signal, maxWait: 60_000 }, {}].map((options) =>
      outcome(limiter.wait(key, options)),
    )
    await vi.advanceTimersByTimeAsync(500)
    abort.abort(new Error('changed my mind'))
    await vi.advanceTimersByTimeAsync(0)
    for (const each of [first, second]) expect(each).toMatchObject({ at: 500, error: { message: 'changed my mind' } })
    expect(remove).toHaveBeenCalledTimes(1) // one listener for both
    await vi.advanceTimersByTimeAsync(500)
    expect(third!.at).toBe(1000)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('charges nothing if aborted before it starts', async () => {
    const limiter = limiterOf(perSecond(1))
    await expect(limiter.wait(key, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' })
    expect(limiter.consume(key).allowed).toBe(true)
  })

  it('does not refund a denial whose answer comes later', async () => {
    vi.useRealTimers()
    const store = remoteStore(memoryStore({ clock: Date }), () => new Promise((resolve) => setTimeout(resolve, 20)))
    const limiter = limiterOf(gcra({ quota: 1, window: '1h' }), store)
    await limiter.consume(key)
    const codes = await warningsOf(async () => {
      const abort = new AbortController()
      const waiting = limiter.wait(key, { signal: abort.signal }).catch(() => 'aborted')
      await new Promise((resolve) => setTimeout(resolve, 5))
      abort.abort()
      expect(await waiting).toBe('aborted')
      await new Promise((resolve) => setTimeout(resolve, 100))
    })
    expect(codes).toEqual([])
  })

  it('refunds what it charged if aborted during a delay', async () => {
    const limiter = limiterOf(leakyBucket({ quota: 1, window: '1s', capacity: 2 }))
    limiter.consume(key)
    const abort = new AbortController()
    const waiting = outcome(limiter.wait(key, { signal: abort.signal }))
    await vi.advanceTimersByTimeAsync(100)
    abort.abort()
    await vi.advanceTimersByTimeAsync(0)
    expect(waiting.at).toBe(100)
    expect(limiter.peek(key, { cost: 0 }).limits[0]).toMatchObject({ remaining: 1, resetAfter: 1000 })
    expect(vi.getTimerCount()).toBe(0)
  })

  it('changes nothing if aborted after it was admitted', async () => {
    const limiter = limiterOf(perSecond(1))
    const abort = new AbortController()
    await limiter.wait(key, { signal: abort.signal })
    abort.abort()
    expect(limiter.consume(key).allowed).toBe(false)
  })
})

describe('requests that wait on a store and on a guard of it', () => {
  const definition = {
    name: 'guarded',
    keyer: (input: string) => input,
    limits: gcra({ quota: 10, window: '1s', burst: 2 }),
  }
  const pair = (): [Limiter<string>, Limiter<string>] => {
    const store = later()
    return [createLimiter({ ...definition, store }), createLimiter({ ...definition, store: guard(store) })]
  }

  it('are served before requests that come later over the other one', async () => {
    for (const [waiting, other] of [pair(), pair().toReversed() as [Limiter<string>, Limiter<string>]]) {
      await waiting.consume(key, { cost: 2 })
      const served = outcome(waiting.wait(key, { cost: 2 }))
      let admitted = 0
      for (let i = 0; i < 40 && served.at === undefined; i++) {
        await vi.advanceTimersByTimeAsync(10)
        if ((await other.consume(key)).allowed && served.at === undefined) admitted++
      }
      expect([admitted, served.decision?.allowed]).toEqual([0, true])
    }
  })
})

describe('a request that waits', () => {
  it.each<[string, () => Limiter<string>]>([
    ['at once', () => limiterOf(gcra({ quota: 10, window: '1s', burst: 2 }))],
    ['later', () => limiterOf(gcra({ quota: 10, window: '1s', burst: 2 }), later())],
  ])('is served before requests that come later and need less, if the store answers %s', async (_, make) => {
    const limiter = make()
    await limiter.consume(key, { cost: 2 })
    const waiting = outcome(limiter.wait(key, { cost: 2 }))
    for (let i = 0; i < 10; i++) {
      await vi.advanceTimersByTimeAsync(19)
      expect(await limiter.consume(key)).toMatchObject({ allowed: false })
    }
    await vi.advanceTimersByTimeAsync(10)
    expect(waiting.at).toBe(200)
  })

  it('makes later requests wait for its time and their own', async () => {
    const limiter = limiterOf(gcra({ quota: 10, window: '1s', burst: 3 }))
    limiter.consume(key)
    limiter.consume(key, { cost: 2 })
    void limiter.wait(key, { cost: 2 })
    for (const decide of [() => limiter.consume(key), () => limiter.peek(key)]) {
      expect(decide()).toMatchObject({ allowed: false, retryAfter: 300, remaining: 0, binding: { allowed: false } })
    }
    await vi.advanceTimersByTimeAsync(300)
    expect(limiter.consume(key).allowed).toBe(true)
  })

  it('makes later requests wait at least as long as for the capacity', async () => {
    const limiter = limiterOf(gcra({ quota: 10, window: '1s', burst: 2 }))
    limiter.consume(key, { cost: 2 })
    void limiter.wait(key, { cost: 2 })
    expect(limiter.consume(key)).toMatchObject({ allowed: false, retryAfter: 200, remaining: 0 })
    await vi.advanceTimersByTimeAsync(200)
    expect(limiter.consume(key)).toMatchObject({ allowed: false, retryAfter: 100 })
  })

  it('delays no other key, no other limit and no request without a cost', async () => {
    const store = memoryStore({ clock: Date })
    const limiter = limiterOf(perSecond(1), store)
    const other = createLimiter({ name: 'other', keyer: (input: string) => input, limits: perSecond(1), store })
    limiter.consume(key)
    void limiter.wait(key)
    expect(limiter.consume('bob').allowed).toBe(true)
    expect(other.consume(key).allowed).toBe(true)
    expect(limiter.consume(key, { cost: 0 }).allowed).toBe(true)
    await vi.advanceTimersByTimeAsync(1000)
  })

  it('comes first for every limiter on its store', async () => {
    const store = memoryStore({ clock: Date })
    const user = createLimiter({ name: 'user', keyer: (input: string) => input, limits: perSecond(1), store })
    const site = createLimiter({ name: 'site', keyer: () => 'all', limits: perSecond(1), store })
    const both = stack(user, site)
    both.consume(key)
    const waiting = outcome(both.wait('bob'))
    expect(site.consume(key)).toMatchObject({ allowed: false, retryAfter: 1000 })
    await vi.advanceTimersByTimeAsync(1000)
    expect(waiting.at).toBe(1000)
  })

  it('is served as soon as a refund or a reset makes room', async () => {
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '1h' }))
    const first = limiter.consume(key)
    const waiting = [outcome(limiter.wait(key)), outcome(limiter.wait(key))]
    await vi.advanceTimersByTimeAsync(10)
    limiter.refund(first)
    await vi.advanceTimersByTimeAsync(0)
    expect(waiting.map(({ at }) => at)).toEqual([10, undefined])
    limiter.reset(key)
    await vi.advanceTimersByTimeAsync(0)
    expect(waiting.map(({ at }) => at)).toEqual([10, 10])
    expect(vi.getTimerCount()).toBe(0)
  })
})

/** Stores by when they answer. */
const stores = [
  ['at once', () => memoryStore({ clock: Date })],
  ['later', () => later()],
] as const

describe('a strict limit', () => {
  it.each(stores)(
    'counts one denial of a request that waits for a slot, in a store that answers %s',
    async (_, storeOf) => {
      const limits = [concurrent(1), fixedWindow({ quota: 100, window: '1h', strict: true })]
      const limiter = createLimiter({ keyer: (input: string) => input, limits, store: storeOf() })
      const used = async (): Promise<number> => (await limiter.peek(key, { cost: 0 })).limits[1]!.used
      const first = await limiter.wait(key)
      const waiting = outcome(limiter.wait(key))
      await vi.advanceTimersByTimeAsync(3000)
      expect(await used()).toBe(2)
      await limiter.release(first)
      await vi.advanceTimersByTimeAsync(100)
      expect(waiting.decision?.allowed).toBe(true)
      expect(await used()).toBe(3)
    },
  )
})

describe('a full queue', () => {
  it('rejects the newest waiter of the longest key for one of a shorter key', async () => {
    const limiter = limiterOf(perSecond(1))
    const left: string[] = []
    const enter = (key: string, name: string): void =>
      void limiter
        .wait(key, { maxQueue: 3 })
        .catch((error: unknown) => left.push(`${name} ${(error as { code: string }).code}`))
    for (const each of [key, 'bob']) limiter.consume(each)
    for (const name of ['ada 1', 'ada 2', 'ada 3']) enter(key, name)
    enter('bob', 'bob 1')
    await vi.advanceTimersByTimeAsync(0)
    expect(left).toEqual(['ada 3 WAIT_QUEUE_FULL'])
    enter('bob', 'bob 2')
    await vi.advanceTimersByTimeAsync(0)
    expect(left).toEqual(['ada 3 WAIT_QUEUE_FULL', 'bob 2 WAIT_QUEUE_FULL'])
    await vi.advanceTimersByTimeAsync(2000)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('rejects one more of a key than maxPerKey, and no other key', async () => {
    const limiter = limiterOf(perSecond(1))
    for (const each of [key, 'bob']) limiter.consume(each)
    const waits = Array.from({ length: 2 }, () => limiter.wait(key, { maxPerKey: 2 }))
    await expect(limiter.wait(key, { maxPerKey: 2 })).rejects.toMatchObject({ code: 'WAIT_QUEUE_FULL' })
    waits.push(limiter.wait('bob', { maxPerKey: 2 }))
    await vi.advanceTimersByTimeAsync(2000)
    expect((await Promise.all(waits)).map(({ allowed }) => allowed)).toEqual([true, true, true])
  })

  it('keeps at most maxQueue waiters, however many keys ask', async () => {
    const limiter = limiterOf(perSecond(1))
    let rejected = 0
    for (let i = 0; i < 300; i++) {
      limiter.consume(`key ${i}`)
      for (let each = 0; each < 3; each++) void limiter.wait(`key ${i}`, { maxQueue: 50 }).catch(() => void rejected++)
    }
    await vi.advanceTimersByTimeAsync(0)
    expect(rejected).toBe(900 - 50)
    expect(waitingRequests().get('default')).toBe(50)
    await vi.advanceTimersByTimeAsync(5000)
    expect([waitingRequests().get('default'), vi.getTimerCount()]).toEqual([undefined, 0])
  })

  it.each([0, 1.5, '9', null])('refuses maxQueue: %o', async (maxQueue) => {
    await expect(limiterOf(perSecond(1)).wait(key, { maxQueue } as object)).rejects.toThrow(/maxQueue: expected/)
  })
})

describe('the work of many waiters', () => {
  it('grows in proportion to their number, with a maxWait too', async () => {
    const store = memoryStore({ clock: Date })
    const run = vi.spyOn(store, 'run')
    const limiter = limiterOf(slidingWindowLog({ quota: 5, window: '1s' }), store)
    const abort = new AbortController()
    const waits = Array.from({ length: 4000 }, (_, i) =>
      limiter.wait(key, { signal: abort.signal, ...(i % 2 === 0 && { maxWait: 1e9 }) }).catch(() => 0),
    )
    await vi.advanceTimersByTimeAsync(0)
    expect(run.mock.calls.length).toBeLessThan(3 * 4000)
    abort.abort()
    await Promise.all(waits)
  })
})

describe('requests that wait for slots', () => {
  /** Takes a slot and then waits for one, for each key. Returns how often this process asks the store in a second. */
  async function questionsOf(
    keys: readonly string[],
    limiterOn: (store: SyncStore) => Limiter<string>,
  ): Promise<number> {
    const store = memoryStore({ clock: Date })
    const limiter = limiterOn(store)
    const abort = new AbortController()
    for (const each of new Set(keys)) await limiter.consume(each)
    const waits = keys.map((each) => limiter.wait(each, { signal: abort.signal }).catch(() => undefined))
    await vi.advanceTimersByTimeAsync(1000)
    const run = vi.spyOn(store, 'run')
    await vi.advanceTimersByTimeAsync(1000)
    const asked = run.mock.calls.length
    abort.abort()
    await Promise.all(waits)
    return asked
  }

  const tenants = Array.from({ length: 200 }, (_, i) => String(i))

  it('ask 13 to 20 times a second for a key, and at most 1,000 times for all keys', async () => {
    const one = await questionsOf([key, key, key], (store) => limiterOf(concurrent(1), store))
    expect(one).toBeGreaterThanOrEqual(12)
    expect(one).toBeLessThanOrEqual(20)
    const all = await questionsOf(tenants, (store) => limiterOf(concurrent(1), store))
    expect(all).toBeGreaterThan(500)
    expect(all).toBeLessThanOrEqual(1000)
  })

  it('ask as often for one slot that many keys wait for as for one key', async () => {
    const shared = await questionsOf(tenants, (store) =>
      stack(
        createLimiter({ name: 'tenant', keyer: (input: string) => input, limits: concurrent(5), store }),
        createLimiter({ name: 'shared', keyer: () => 'all', limits: concurrent(1), store }),
      ),
    )
    expect(shared).toBeGreaterThanOrEqual(12)
    expect(shared).toBeLessThanOrEqual(20)
  })
})

describe('a wait that ends early', () => {
  it('warns when its charge cannot be refunded, and ends no process', async () => {
    const warnings = recordWarnings()
    const limits = leakyBucket({ quota: 1, window: '1s', capacity: 5 })
    const limiter = limiterOf(limits, later(true))
    await limiter.wait(key)
    const abort = new AbortController()
    const held = limiter.wait(key, { signal: abort.signal })
    await vi.advanceTimersByTimeAsync(100)
    abort.abort(new Error('gone'))
    await expect(held).rejects.toThrow('gone')
    await vi.advanceTimersByTimeAsync(0)
    warnings.stop()
    expect(warnings.codes).toContain('SLUICE_OUTCOME')
    expect(warnings.messages.join()).toContain('down')
  })
})

describe('a slot that is taken before a delay', () => {
  const limits = [
    concurrent({ quota: 1, expiresAfter: '1s' }),
    leakyBucket({ quota: 1, window: '4s', capacity: 5 }),
  ] as const

  it.each(stores)('is held until the delay is over, in a store that answers %s', async (_, storeOf) => {
    const limiter = createLimiter({ keyer: (input: string) => input, limits, store: storeOf() })
    const used = async (): Promise<number> => (await limiter.peek(key, { cost: 0 })).limits[0]!.used
    await limiter.release(await limiter.wait(key))
    const waiting = outcome(limiter.wait(key))
    for (let i = 0; i < 7; i++) {
      await vi.advanceTimersByTimeAsync(500)
      expect(await used()).toBe(1)
    }
    await vi.advanceTimersByTimeAsync(500)
    expect(waiting.at).toBe(4000)
    // From then on, the caller of `wait` renews it.
    await vi.advanceTimersByTimeAsync(1000)
    expect(await used()).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is given back when the wait is given up after a renewal', async () => {
    const limiter = limiterOf(limits)
    await limiter.release(await limiter.wait(key))
    const gone = new AbortController()
    const waiting = outcome(limiter.wait(key, { signal: gone.signal }))
    await vi.advanceTimersByTimeAsync(1500)
    gone.abort()
    await vi.advanceTimersByTimeAsync(0)
    expect(waiting.error).toBe(gone.signal.reason)
    expect(limiter.peek(key, { cost: 0 }).limits.map((each) => each.used)).toEqual([0, 1])
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('with a virtual clock', () => {
  it('maxWait passes when the clock says so', async () => {
    vi.useRealTimers()
    const clock = virtualClock()
    const store = remoteStore(memoryStore({ clock }))
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '1h' }), store)
    await limiter.consume(key)
    vi.spyOn(store, 'run').mockReturnValue(undefined)
    const waiting = limiter.wait(key, { maxWait: 60_000 })
    clock.advance(60_002)
    await expect(waiting).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
  })
})
