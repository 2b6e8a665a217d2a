// block, pause and penalize of a limiter, on a memory store.
import { describe, expect, it, vi } from 'vitest'
import {
  createLimiter,
  type Decision,
  everyone,
  fixedWindow,
  gcra,
  type Limit,
  type Limiter,
  type LimiterOptions,
  memoryStore,
  perMinute,
  perSecond,
  slidingWindowLog,
} from '../../src/index.ts'
import { preflightLimiterOf } from '../../src/limiter/adapted.ts'
import { unlimited } from '../../src/limiter/options.ts'
import { createRules } from '../../src/rules/index.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { codeOf } from '../support/code-of.ts'
import { warningsOf } from '../support/http.ts'

const hundred = perSecond(100, { name: 'hundred' })

function setup(limits: LimiterOptions<string>['limits'] = hundred): {
  readonly clock: VirtualClock
  readonly limiter: Limiter<string, Decision>
} {
  const clock = virtualClock()
  const store = memoryStore({ clock })
  return { clock, limiter: createLimiter({ keyer: (key: string) => key, limits, store }) as Limiter<string, Decision> }
}

/** Fakes the timers. Returns a limiter of one key on their clock, and the milliseconds since. */
function waiting(limits: Limit): { readonly limiter: Limiter<unknown, Decision>; since(): number } {
  vi.useFakeTimers({ now: 1_767_225_600_000 })
  const began = Date.now()
  const limiter = createLimiter({ keyer: everyone, limits, store: memoryStore({ clock: Date }) })
  return { limiter, since: () => Date.now() - began }
}

describe('block', () => {
  it.each([-1, 1.5, Number.NaN, Infinity, '', '0s', 'soon', '36526d', undefined, null, {}])(
    'refuses a duration of %s',
    (duration) => {
      const { limiter } = setup()
      for (const method of ['block', 'pause'] as const)
        expect(codeOf(() => limiter[method]('a', duration as number))).toBe('INVALID_OPTION')
      expect(limiter.peek('a').allowed).toBe(true)
    },
  )

  it('denies by every limit, and reports the lock-out in each', () => {
    const { limiter } = setup([hundred, slidingWindowLog({ quota: 5, window: '1h', name: 'log' })])
    limiter.block('a', '1m')
    const decision = limiter.consume('a')
    expect(decision).toMatchObject({ allowed: false, retryAfter: 60_000, resetAfter: 60_000, remaining: 0 })
    const locked = { allowed: false, retryAfter: 60_000 }
    expect(decision.limits).toMatchObject([locked, locked])
    expect(limiter.consume('b').allowed).toBe(true)
  })

  it('waits for the limit if that denies for longer', () => {
    const { limiter } = setup(fixedWindow({ quota: 1, window: '1h' }))
    limiter.consume('a')
    limiter.block('a', '1m')
    expect(limiter.consume('a').retryAfter).toBe(3_600_000)
  })

  it('does not lock a shadow limit', () => {
    const { limiter } = setup([hundred, perMinute(5, { name: 'shade', shadow: true })])
    limiter.block('a', '1m')
    expect(limiter.consume('a').limits.map(({ allowed }) => allowed)).toEqual([false, true])
  })

  it('of an input without limits warns once, and changes nothing', async () => {
    const { limiter } = setup((key) => (key === 'free' ? unlimited : hundred))
    const codes = await warningsOf(() => {
      for (let i = 0; i < 3; i++) limiter.block('free', '1m')
      limiter.penalize('free', 5)
      expect(limiter.consume('free').allowed).toBe(true)
    })
    expect(codes).toEqual(['SLUICE_NOT_LIMITED'])
  })

  it('covers the preflights of the key', () => {
    const { limiter } = setup()
    const preflights = preflightLimiterOf(limiter) as Limiter<string, Decision>
    limiter.block('a', '1m')
    expect(preflights.consume('a').retryAfter).toBe(60_000)
    limiter.key('a').block(0)
    expect(preflights.consume('a').allowed).toBe(true)
  })

  it('locks the keys of the policies that match, with rules', async () => {
    const limits = [{ quota: 100, window: '1m' }]
    const policies = ['login', 'rest'].map((name) => ({ name, match: { path: `/${name}` }, key: 'ip', limits }))
    const rules = createRules({ policies })
    const limiter = createLimiter({ rules, store: memoryStore({ clock: virtualClock() }) })
    const login = { path: '/login', ip: '192.0.2.1' }
    await limiter.block(login, '1m')
    expect(await limiter.consume(login)).toMatchObject({ allowed: false, retryAfter: 60_000 })
    expect(await limiter.consume({ ...login, path: '/rest' })).toMatchObject({ allowed: true })
    await limiter.reset(login)
    expect(await limiter.consume(login)).toMatchObject({ allowed: true })
  })
})

describe('penalize', () => {
  it('accepts a function of the limit, and charges strict and shadow limits as others', () => {
    const limits = [
      fixedWindow({ quota: 10, window: '1h', name: 'plain' }),
      fixedWindow({ quota: 10, window: '1h', name: 'strict', strict: true }),
      fixedWindow({ quota: 10, window: '1h', name: 'shade', shadow: true }),
    ]
    const { limiter } = setup(limits)
    limiter.penalize('a', ({ name }) => name.length)
    expect(limiter.peek('a', { cost: 0 }).limits.map(({ remaining }) => remaining)).toEqual([5, 4, 5])
  })

  it.each([-1, 0.5, Number.NaN, '3', undefined])('refuses %s units', (units) => {
    expect(codeOf(() => setup().limiter.penalize('a', units as number))).toBe('INVALID_COST')
  })

  it('does not call the cost function', () => {
    const cost = vi.fn(() => 3)
    const limiter = createLimiter({ keyer: everyone, limits: hundred, cost })
    limiter.penalize({}, 10)
    limiter.block({}, '1s')
    expect(cost).not.toHaveBeenCalled()
  })
})

describe('pause', () => {
  it('lets waiters wait, and admits them in order at the rate of the limit', async () => {
    const { limiter, since } = waiting(gcra({ quota: 10, window: '1s', burst: 1 }))
    const admitted: [string, number][] = []
    const enter = (name: string): void => void limiter.wait({}).then(() => admitted.push([name, since()]))
    for (const name of ['first', 'second', 'third']) enter(name)
    await vi.advanceTimersByTimeAsync(50)
    limiter.pause({}, '2s')
    enter('fourth')
    await vi.advanceTimersByTimeAsync(5000)
    expect(admitted).toEqual([
      ['first', 0],
      ['second', 2050],
      ['third', 2150],
      ['fourth', 2250],
    ])
  })

  it('rejects the first waiter at once if it is longer than its maxWait, and new ones too', async () => {
    const { limiter, since } = waiting(gcra({ quota: 1, window: '1s' }))
    limiter.consume({})
    const ends: string[] = []
    const ended = ({ code }: { code: string }): unknown => ends.push(`${code} after ${since()} ms`)
    const enter = (): void => void limiter.wait({}, { maxWait: 1500 }).catch(ended)
    enter()
    await vi.advanceTimersByTimeAsync(100)
    limiter.pause({}, '1m')
    await vi.advanceTimersByTimeAsync(0)
    enter()
    await vi.advanceTimersByTimeAsync(0)
    expect(ends).toEqual(['WAIT_TOO_LONG after 100 ms', 'WAIT_TOO_LONG after 100 ms'])
  })

  it('that a block ends wakes the waiters', async () => {
    const { limiter } = waiting(hundred)
    limiter.pause({}, '1h')
    const admitted = vi.fn()
    void limiter.wait({}).then(admitted)
    await vi.advanceTimersByTimeAsync(1000)
    expect(admitted).not.toHaveBeenCalled()
    limiter.block({}, 0)
    await vi.advanceTimersByTimeAsync(0)
    expect(admitted).toHaveBeenCalled()
  })
})

describe('the rejection of a waiter after a penalty', () => {
  it('comes at once, since the prediction is made again', async () => {
    const { limiter } = waiting(perSecond(1))
    limiter.consume({})
    void limiter.wait({})
    const code = (): Promise<unknown> =>
      limiter.wait({}, { maxWait: 10_000 }).catch((error: unknown) => (error as { code: string }).code)
    const before = code()
    await vi.advanceTimersByTimeAsync(0)
    limiter.penalize({}, 100)
    expect(await code()).toBe('WAIT_TOO_LONG')
    await vi.advanceTimersByTimeAsync(200_000)
    expect(await before).toBe('WAIT_TOO_LONG')
  })
})
