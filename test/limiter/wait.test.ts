import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  leakyBucket,
  type Limit,
  type Limiter,
  memoryStore,
  perSecond,
  type SyncStore,
  tokenBucket,
} from '../../src/index.ts'
import type { Charge } from '../../src/extend.ts'
import { perform } from '../../src/stores/store.ts'
import { remoteStore } from '../../src/testing/adapter/world.ts'
import { warningsOf } from '../support/http.ts'
import { methodsOf } from '../support/method-store.ts'

/** Milliseconds since the test started, on the fake clock of timers and store. */
let began = 0
const since = (): number => Date.now() - began
const key = 'ada'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_767_225_600_000 })
  began = Date.now()
})
afterEach(() => {
  vi.useRealTimers()
})

function limiterOf(
  limits: Limit | readonly Limit[],
  store: SyncStore = memoryStore({ clock: Date }),
): Limiter<string, Decision> {
  return createLimiter({ keyer: (input: string) => input, limits, store })
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

describe('wait', () => {
  it('resolves at the retry time, and asks the store twice', async () => {
    const store = memoryStore({ clock: Date })
    const run = vi.spyOn(store, 'run')
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '1h' }), store)
    limiter.consume(key)
    run.mockClear()
    const waiting = outcome(limiter.wait(key))
    await vi.advanceTimersByTimeAsync(3_600_000 - 1)
    expect(waiting.at).toBeUndefined()
    await vi.advanceTimersByTimeAsync(1)
    expect(waiting.at).toBe(3_600_000)
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

  it('admits waiters of a key that starts without tokens', async () => {
    const limiter = limiterOf(tokenBucket({ quota: 1, window: '1s', capacity: 5, initial: 0 }))
    const waiting = [1, 2, 3].map(() => outcome(limiter.wait(key)))
    await vi.advanceTimersByTimeAsync(3000)
    expect(waiting.map(({ at }) => at)).toEqual([1000, 2000, 3000])
  })

  it('keeps the order when a later waiter has a smaller cost', async () => {
    const limiter = limiterOf(gcra({ quota: 10, window: '1s' }))
    limiter.consume(key, { cost: 10 })
    const large = outcome(limiter.wait(key, { cost: 8 }))
    const small = outcome(limiter.wait(key, { cost: 1 }))
    await vi.advanceTimersByTimeAsync(2000)
    expect([large.at, small.at]).toEqual([800, 900])
  })

  it('does not make one key wait for another', async () => {
    const limiter = limiterOf(perSecond(1))
    limiter.consume(key)
    const waiting = [outcome(limiter.wait(key)), outcome(limiter.wait('bob'))]
    await vi.advanceTimersByTimeAsync(1000)
    expect(waiting.map(({ at }) => at)).toEqual([1000, 0])
  })

  it('waits for the delay of a leaky bucket', async () => {
    const limiter = limiterOf(leakyBucket({ quota: 10, window: '1s', capacity: 3 }))
    const waiting = Array.from({ length: 5 }, () => outcome(limiter.wait(key)))
    await vi.advanceTimersByTimeAsync(1000)
    expect(waiting.map(({ at }) => at)).toEqual([0, 100, 200, 300, 400])
  })

  it('waits longer than the maximum of a timer', async () => {
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '60d' }))
    limiter.consume(key)
    const waiting = outcome(limiter.wait(key))
    await vi.advanceTimersByTimeAsync(60 * 86_400_000 - 1)
    expect(waiting.at).toBeUndefined()
    await vi.advanceTimersByTimeAsync(1)
    expect(waiting.at).toBe(60 * 86_400_000)
  })

  it('passes on what the keyer throws', async () => {
    const limiter = createLimiter({
      keyer: (): string => {
        throw new Error('boom')
      },
      limits: perSecond(1),
    })
    await expect(limiter.wait(undefined)).rejects.toThrow('boom')
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
    const limiter = createLimiter<string>({
      keyer: (input) => input,
      limits: fixedWindow({ quota: 10, window: '1h' }),
      store,
    })
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

  it.each([
    { maxWait: -1 },
    { maxWait: NaN },
    { maxWait: '5000' },
    { maxWait: '5 s' },
    { maxWait: null },
    { cost: 0.5 },
    { maxwait: 5 },
    { signal: {} },
    { signal: null },
    { signal: new AbortController() },
    5,
  ])('refuses %o', async (options) => {
    await expect(limiterOf(perSecond(1)).wait(key, options as object)).rejects.toThrow(/: expected|has no option/)
  })
})

describe('wait rejects at once', () => {
  it('when the cost can never be admitted', async () => {
    const limiter = limiterOf(perSecond(5))
    for (const waiting of [outcome(limiter.wait(key, { cost: 6 })), outcome(limiter.wait(key, { cost: 6 }))]) {
      await vi.advanceTimersByTimeAsync(0)
      const message = 'A cost of 6 is more than limit "5-per-1s" ever admits at once'
      expect(waiting).toMatchObject({
        at: 0,
        error: {
          code: 'NEVER_ADMITTED',
          message: expect.stringContaining(message) as string,
          cause: { allowed: false },
        },
      })
    }
  })

  it('when maxWait cannot be met', async () => {
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '10s' }))
    limiter.consume(key)
    const [short, long] = [
      outcome(limiter.wait(key, { maxWait: 9_000 })),
      outcome(limiter.wait(key, { maxWait: '10s' })),
    ]
    await vi.advanceTimersByTimeAsync(10_000)
    const message = 'The wait would take 10000 ms, longer than maxWait, 9000 ms'
    expect(short).toMatchObject({
      at: 0,
      error: {
        code: 'WAIT_TOO_LONG',
        message: expect.stringContaining(message) as string,
        cause: { retryAfter: 10_000 },
      },
    })
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
    const methods = methodsOf(store)
    methods.forget('default', key)
    methods.take(limits as readonly Charge[], 'consume')
    await vi.advanceTimersByTimeAsync(1)
    const message = 'The wait would take 1999 ms, longer than maxWait, 1500 ms'
    expect(waiting).toMatchObject({
      at: 1000,
      error: { code: 'WAIT_TOO_LONG', message: expect.stringContaining(message) as string },
    })
    expect(vi.getTimerCount()).toBe(0)
  })
})

it('wait rejects when maxWait passes before the store replies', async () => {
  const store = remoteStore(memoryStore({ clock: Date }), () => new Promise(() => undefined))
  const limiter = createLimiter({ keyer: (input: string) => input, limits: perSecond(1), store })
  const waiting = outcome(limiter.wait(key, { maxWait: 1500 }))
  await vi.advanceTimersByTimeAsync(1502)
  const message = 'Not admitted within maxWait, 1500 ms'
  expect(waiting).toMatchObject({
    at: 1502,
    error: { code: 'WAIT_TOO_LONG', message: expect.stringContaining(message) as string },
  })
})

describe('an aborted wait', () => {
  it('rejects with the signal’s reason and leaves no timer and no listener', async () => {
    const limiter = limiterOf(perSecond(1))
    limiter.consume(key)
    const abort = new AbortController()
    const remove = vi.spyOn(abort.signal, 'removeEventListener')
    const [first, second, third] = [
      outcome(limiter.wait(key, { signal: abort.signal })),
      outcome(limiter.wait(key, { signal: abort.signal, maxWait: 60_000 })),
      outcome(limiter.wait(key)),
    ]
    await vi.advanceTimersByTimeAsync(500)
    abort.abort(new Error('changed my mind'))
    await vi.advanceTimersByTimeAsync(0)
    expect([first, second]).toMatchObject([
      { at: 500, error: { message: 'changed my mind' } },
      { at: 500, error: { message: 'changed my mind' } },
    ])
    expect(remove).toHaveBeenCalledTimes(1) // one listener for both
    await vi.advanceTimersByTimeAsync(500)
    expect(third.at).toBe(1000)
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
    const limiter = createLimiter<string>({ keyer: (input) => input, limits: gcra({ quota: 1, window: '1h' }), store })
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
