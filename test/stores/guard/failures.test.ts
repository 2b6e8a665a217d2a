// What kinds of failures mean: a store that is away, a key that is locked, a store that is not set up, a row that cannot be read.
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  guard,
  lease,
  memoryStore,
  perMinute,
  SluiceError,
  type StoreChange,
} from '../../../src/index.ts'
import { rowStore } from '../../../src/extend.ts'
import { Part } from '../../../src/stores/guard/health.ts'
import type { Operation } from '../../../src/stores/store.ts'
import { type FaultyStore, faultyStore, SILENT } from '../../support/faulty-store.ts'
import { type Guarded, guardedOn, warningsOfEachTest } from '../../support/guarded.ts'
import { laterStore } from '../../support/later.ts'
import { until } from '../../support/redis-tests.ts'
import { settled } from '../../support/held-store.ts'

const warnings = warningsOfEachTest()

function world(wrap: (store: AsyncStore) => AsyncStore = (store) => store): FaultyStore & Guarded {
  const store = faultyStore()
  return Object.assign(store, guardedOn(wrap(store), { deadline: '5s' }))
}

function isAbout(operation: Operation, key: string): boolean {
  return operation.kind === 'forget' ? operation.key === key : operation.charges.some((charge) => charge.key === key)
}

describe('a key that another process has locked', () => {
  it('is decided in this process, and others by the store, however often', async () => {
    const it = world()
    it.fault = (operation) => (isAbout(operation, 'busy') ? new SluiceError('STORE_BUSY', 'locked') : undefined)
    for (let i = 0; i < 20; i++) {
      expect((await it.limiter.consume('busy')).degraded).toBe('local')
      expect((await it.limiter.consume('free')).degraded).toBeUndefined()
    }
    expect(it.changes).toEqual([])
    await settled()
    expect(warnings.codes).toEqual(['SLUICE_LOCAL'])
    expect(warnings.messages[0]).toContain('locked')
    it.fault = () => undefined
    expect((await it.limiter.consume('busy')).degraded).toBeUndefined()
  })
})

describe('a change of a key that another process has locked', () => {
  const isLocked = ({ kind }: Operation): unknown =>
    kind === 'adjust' ? new SluiceError('STORE_BUSY', 'locked') : undefined

  it('is sent again until the key is free, and done once, if it is a refund', { timeout: 20_000 }, async () => {
    const it = world()
    const remaining = async (): Promise<number> => (await it.limiter.peek('a', { cost: 0 })).limits[0]!.remaining
    const sent = (): number => it.asked.filter(({ kind }) => kind === 'adjust').length
    const decision = await it.limiter.consume('a', { cost: 60 })
    it.fault = isLocked
    await it.limiter.refund(decision)
    expect(await remaining()).toBeLessThan(50)
    await until(async () => sent() >= 3)
    it.fault = () => undefined
    const before = sent()
    await until(async () => (await remaining()) > 95)
    await pause(1500)
    expect(sent()).toBe(before + 1)
    expect(it.changes).toEqual([])
    await settled()
    expect(warnings.codes).toEqual([])
  })

  it('fails, and is not sent again, if it is a penalty', async () => {
    const it = world()
    it.fault = isLocked
    await expect(it.limiter.penalize('a', 5)).rejects.toMatchObject({ code: 'STORE_BUSY' })
    await pause(1500)
    expect(it.asked.length).toBe(1)
  })
})

describe('a store that is not set up', () => {
  it('is an outage from the first decision on, whose warning says what to do', async () => {
    const it = world()
    it.fault = () => new SluiceError('STORE_SETUP', 'The table does not exist. Create it: npx sluice migrate')
    expect((await it.limiter.consume('a')).degraded).toBe('local')
    expect(it.changes).toMatchObject([{ state: 'away' }])
    await settled()
    expect(warnings.codes).toEqual(['SLUICE_OUTAGE'])
    expect(warnings.messages[0]).toContain('Create it: npx sluice migrate')
  })

  it('is known before by `ready`, also through wrappers', async () => {
    const error = new SluiceError('STORE_SETUP', 'no table')
    const store = rowStore({
      transact(): never {
        throw error
      },
      ready: async () => Promise.reject(error),
    })
    for (const each of [guard(store), denyCache(store), lease(store), guard(denyCache(lease(store)))]) {
      await expect(each.ready!()).rejects.toMatchObject({ code: 'STORE_SETUP' })
      await each.close()
    }
    expect(guard(laterStore(memoryStore())).ready).toBeUndefined()
  })
})

it('a server whose clock has no time of today is an outage', async () => {
  let now = 1e6
  const store = rowStore({ sync: true, transact: (_, change) => change([undefined], now).result })
  const changes: StoreChange[] = []
  const guarded = guard(store, { onChange: (change) => void changes.push(change) })
  const limiter = createLimiter({ keyer: (key: string) => key, limits: perMinute(100), store: guarded })
  expect(limiter.consume('a').degraded).toBe('local')
  expect(changes).toMatchObject([{ state: 'away', reason: expect.stringContaining('got 1000000') as string }])
  now = 1.7e15
  await until(async () => limiter.consume('a').degraded === undefined)
  guarded.close()
  await settled()
})

describe('a row that cannot be read', () => {
  const damaged = (operation: Operation): unknown =>
    operation.kind !== 'forget' && isAbout(operation, 'bad') ? new SluiceError('DAMAGED_ROW', 'row of bad') : undefined

  it('is asked about each time, and decided in this process, with one warning', async () => {
    const it = world()
    it.fault = damaged
    for (let i = 0; i < 10; i++) {
      expect((await it.limiter.consume('bad')).degraded).toBe('local')
      expect((await it.limiter.consume('good')).degraded).toBeUndefined()
    }
    expect(it.asked.filter((operation) => isAbout(operation, 'bad')).length).toBe(10)
    expect(it.changes).toEqual([])
    await settled()
    expect(warnings.codes).toEqual(['SLUICE_LOCAL'])
    expect(warnings.messages[0]).toContain('row of bad')
  })

  it('is used again after a reset, which deletes it', async () => {
    const it = world()
    it.fault = damaged
    await it.limiter.consume('bad')
    await it.limiter.reset('bad')
    it.fault = () => undefined
    expect((await it.limiter.consume('bad')).degraded).toBeUndefined()
  })
})

describe('the breaker', () => {
  it('closes at an answer that says that the limit of the probe is wrong', async () => {
    const it = world()
    const wrong = (operation: Operation): unknown =>
      operation.kind !== 'forget' && operation.charges.some(({ limit }) => limit.name === 'wrong')
        ? new SluiceError('STORE_REJECTED', 'an error in an algorithm')
        : undefined
    it.fault = wrong
    const other = createLimiter({
      name: 'other',
      keyer: (key: string) => key,
      limits: { ...perMinute(5), name: 'wrong' },
      store: it.guarded,
    })
    // Probes are charged to the limit of the first request.
    await expect(other.consume('a')).rejects.toMatchObject({ code: 'STORE_REJECTED' })
    await it.limiter.consume('a')
    it.fault = () => new SluiceError('STORE_FAILED', 'away')
    for (let i = 0; i < 3; i++) await it.limiter.consume('a')
    expect(it.changes).toMatchObject([{ state: 'away' }])
    it.fault = wrong
    await until(async () => (await it.limiter.consume('a')).degraded === undefined)
    await settled()
  })

  it('counts the operations of one transaction as one failure', async () => {
    const it = world()
    await it.limiter.consume('a')
    const cause = new Error('timed out')
    it.fault = () => new SluiceError('STORE_FAILED', 'failed', { cause })
    await Promise.all(Array.from({ length: 20 }, async () => it.limiter.consume('a')))
    expect(it.changes).toEqual([])
    for (let i = 0; i < 2; i++) await it.limiter.consume('a')
    expect(it.changes.length).toBe(1)
  })

  it('opens at errors that are different', async () => {
    const it = world()
    await it.limiter.consume('a')
    it.fault = () => new Error('refused')
    await Promise.all(Array.from({ length: 3 }, async () => it.limiter.consume('a')))
    expect(it.changes.length).toBe(1)
  })

  it('does not open while other calls are answered: nothing may be answered since the first failure was sent', async () => {
    const it = world()
    await it.limiter.consume('a')
    it.fault = (operation) => (isAbout(operation, 'slow') ? new Error('late') : undefined)
    for (let i = 0; i < 20; i++) await Promise.all(['slow', 'slow', 'fast'].map(async (key) => it.limiter.consume(key)))
    expect(it.changes).toEqual([])
    // It is not silent, either.
    await pause(1000)
    await it.limiter.consume('fast')
    expect(warnings.messages).toEqual([expect.stringContaining('late. It answers others. This process has made 20')])
  })

  it('does not count calls that were sent before the latest answer', () => {
    const nothing = (): undefined => undefined
    const hooks = { partOf: () => '', trouble: nothing, probe: nothing, changed: nothing, lost: nothing }
    const part = new Part('', { least: 10, most: 1000 }, hooks)
    const sent = performance.now() - 1
    part.answered(1, performance.now(), false, true)
    for (const [time, isOut] of [
      [sent, false],
      [performance.now(), true],
    ] as const) {
      for (let i = 0; i < 3; i++) part.failed({ sent: time, deadline: 1000 }, new Error('refused'))
      expect(part.isOut).toBe(isOut)
    }
    part.stop()
  })

  it('is not slow because several probes waited for the same new connection', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const states: string[] = []
    const late: (() => void)[] = []
    const nothing = (): undefined => undefined
    const part: Part = new Part(
      '',
      { least: 10, most: 1000 },
      {
        partOf: () => '',
        trouble: nothing,
        probe(_, ended) {
          const sent = performance.now()
          late.push(() => ended(undefined, performance.now() - sent, true))
        },
        changed: () => void states.push(part.state),
        lost: nothing,
      },
    )
    const answer = (): void => late.splice(0).forEach((each) => each())
    part.answered(1, performance.now(), false, true)
    for (let i = 0; i < 3; i++) part.failed({ sent: performance.now(), deadline: 10 }, new Error('refused'))
    vi.advanceTimersByTime(17_000)
    expect(late.length).toBe(3)
    answer()
    expect(states).toEqual(['away'])
    // A probe that was sent on the new connection is late, too.
    vi.advanceTimersByTime(300)
    answer()
    expect(states).toEqual(['away', 'slow'])
    part.stop()
  })

  it('learns nothing from what a cache remembers', async () => {
    const store = faultyStore()
    const { limiter, changes } = guardedOn(denyCache(store, { maxAge: '1m' }), { deadline: '20ms' })
    await limiter.consume('full', { cost: 100 })
    await limiter.consume('full')
    store.fault = () => SILENT
    for (let i = 0; i < 3; i++) {
      const late = limiter.consume(`key ${i}`)
      expect((await limiter.consume('full')).allowed).toBe(false)
      expect((await late).degraded).toBe('local')
    }
    expect(changes.length).toBe(1)
  })

  it('opens at the first failure before the first answer', async () => {
    const it = world()
    it.fault = () => new Error('refused')
    await it.limiter.consume('a')
    expect(it.changes).toMatchObject([{ state: 'away', reason: 'refused' }])
  })
})

it('an operation says how long the guard waits', async () => {
  const it = world()
  await it.limiter.consume('a')
  await it.limiter.penalize('a', 1)
  await it.limiter.reset('a')
  expect(it.asked.map(({ kind, within }) => [kind, within])).toEqual([
    ['consume', 5000],
    ['adjust', 5000],
    ['forget', 5000],
  ])
})
