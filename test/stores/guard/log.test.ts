// What a guard writes to the log: the store, the cause, and recoveries, without a flood of lines.
import { EventEmitter } from 'node:events'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { denyCache, SluiceError } from '../../../src/index.ts'
import { Reporter } from '../../../src/stores/guard/reporter.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { type Guarded, guardedOn, warningsOfEachTest } from '../../support/guarded.ts'
import { type FaultyStore, faultyStore, SILENT } from '../../support/faulty-store.ts'
import { until } from '../../support/redis-tests.ts'

const warnings = warningsOfEachTest()

/** A store whose place has a name. */
function named(name?: string, trouble?: string): FaultyStore {
  const store = faultyStore()
  return Object.assign(store, { place: { ...store.place, ...(name !== undefined && { name }), trouble } })
}

/** Emitted warnings come a moment later. */
async function lines(): Promise<string[]> {
  await new Promise((resolve) => setImmediate(resolve))
  return warnings.messages.map((message, i) => `${warnings.codes[i]} ${message.replace(/ \(sluice\/docs.*/, '')}`)
}

describe('the log of an outage', () => {
  const OUTAGE = 'Limiters decide without it until it answers: see `onOutage`. Decisions without it: '
  const AGAIN = 'the store answers again. Limiters use it again. Decisions without it: '

  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))

  it('names the store, the cause, the recovery and the number of decisions without the store', async () => {
    const reporter = new Reporter(named('Redis at a:1'), undefined)
    reporter.countLocal()
    reporter.changed('away', 'refused')
    for (let i = 0; i < 41; i++) reporter.countLocal()
    vi.advanceTimersByTime(5000)
    reporter.changed('healthy', 'the store answers again')
    expect((await lines()).length).toBe(1)
    reporter.proven()
    expect(await lines()).toEqual([
      `SLUICE_OUTAGE Redis at a:1: refused. ${OUTAGE}1`,
      `SLUICE_RECOVERY Redis at a:1: ${AGAIN}42`,
    ])
    reporter.close()
  })

  it('has one line a minute for a store that fails again and again, with the number of changes', async () => {
    const reporter = new Reporter(named('db'), undefined)
    for (let i = 0; i < 18; i++) {
      reporter.changed('away', `freeze ${i}`)
      reporter.countLocal()
      vi.advanceTimersByTime(5000)
      reporter.changed('healthy', 'the store answers again')
      reporter.proven()
      vi.advanceTimersByTime(5000)
    }
    expect(await lines()).toEqual([
      `SLUICE_OUTAGE db: freeze 0. ${OUTAGE}0`,
      `SLUICE_RECOVERY db: ${AGAIN}1`,
      `SLUICE_RECOVERY db: 10 changes in the last minute. The latest: ${AGAIN}5`,
      `SLUICE_RECOVERY db: 12 changes in the last minute. The latest: ${AGAIN}6`,
      `SLUICE_RECOVERY db: 12 changes in the last minute. The latest: ${AGAIN}6`,
    ])
    // A minute without changes: the next outage is logged at once.
    vi.advanceTimersByTime(60_000)
    expect(vi.getTimerCount()).toBe(0)
    reporter.changed('away', 'next')
    expect((await lines()).at(-1)).toBe(`SLUICE_OUTAGE db: next. ${OUTAGE}0`)
    reporter.close()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('has one line a minute while a store is slow, and no recovery before it decides again', async () => {
    const reporter = new Reporter(named('db'), undefined)
    reporter.changed('away', 'no answer within 1 s', true)
    reporter.changed('slow', 'answers take 1.4 s, and `deadline.most` is 1 s')
    for (let i = 0; i < 3; i++) {
      reporter.countLocal()
      vi.advanceTimersByTime(60_000)
    }
    reporter.changed('healthy', 'the store answers again')
    reporter.changed('slow', 'answers take 1.4 s, and `deadline.most` is 1 s')
    reporter.close()
    const slow = 'SLUICE_SLOW_STORE db: answers take 1.4 s, and `deadline.most` is 1 s.'
    const effect = 'Limiters decide without it. Raise `deadline`, or move the store nearer. Decisions without it: '
    expect(await lines()).toEqual([0, 1, 2, 3].map((count) => `${slow} ${effect}${count}`))
  })

  it('says that many decisions are late, or fail, while the store answers others', async () => {
    const reporter = new Reporter(named('db'), undefined)
    const late = (count: number): void => {
      for (let i = 0; i < count; i++) reporter.countLocal('no answer within 50 ms')
      reporter.proven()
      vi.advanceTimersByTime(1000)
      reporter.proven()
    }
    const local = async (): Promise<string[]> => (await lines()).filter((line) => line.startsWith('SLUICE_LOCAL'))
    // Too few in each minute.
    for (let minute = 0; minute < 3; minute++) {
      late(15)
      vi.advanceTimersByTime(60_000)
    }
    expect(await local()).toEqual([])
    // A second report in the same minute would say nothing new.
    late(50)
    late(50)
    // An outage begins.
    vi.advanceTimersByTime(60_000)
    for (let i = 0; i < 50; i++) reporter.countLocal('refused')
    reporter.changed('away', 'refused')
    reporter.changed('healthy', 'the store answers again')
    vi.advanceTimersByTime(1000)
    reporter.proven()
    const effect = 'This process has made 20 decisions of the last minute without it'
    expect(await local()).toEqual([`SLUICE_LOCAL db: no answer within 50 ms. It answers others. ${effect}`])
    reporter.close()
  })

  it('has an outage without an error once it is known that the store is not slow', async () => {
    for (const known of ['lost', 'proven', 'close'] as const) {
      const reporter = new Reporter(named(known), undefined)
      reporter.changed('away', 'no answer within 50 ms', true)
      expect((await lines()).filter((line) => line.includes(known))).toEqual([])
      if (known === 'proven') reporter.changed('healthy', 'the store answers again')
      reporter[known]()
      reporter.close()
      const own = (await lines()).filter((line) => line.includes(known))
      expect(own[0]).toBe(`SLUICE_OUTAGE ${known}: no answer within 50 ms. ${OUTAGE}0`)
      expect(own.length).toBe(known === 'proven' ? 2 : 1)
    }
  })

  it('has one line for several servers that are lost at once, and one when all are back', async () => {
    const reporter = new Reporter(named('cluster'), undefined)
    for (let lost = 1; lost <= 3; lost++) reporter.changed('away', `server ${lost}: refused`)
    for (let left = 2; left >= 0; left--)
      reporter.changed(left > 0 ? 'away' : 'healthy', `server ${left} answers again`)
    reporter.proven()
    expect(await lines()).toEqual([
      `SLUICE_OUTAGE cluster: server 1: refused. ${OUTAGE}0`,
      'SLUICE_RECOVERY cluster: server 0 answers again. Limiters use it again. Decisions without it: 0',
    ])
    reporter.close()
  })

  it('says so if the store has no name', async () => {
    const reporter = new Reporter(named(), undefined)
    reporter.changed('away', 'refused')
    expect(await lines()).toEqual([`SLUICE_OUTAGE A store of rate limits: refused. ${OUTAGE}0`])
    reporter.close()
  })
})

describe('the cause of an outage', () => {
  /** Makes requests until the guard has changed. Late answers do not count while this process is busy. */
  async function lose({ limiter, changes }: Guarded): Promise<void> {
    await until(async () => {
      await limiter.consume('k')
      return changes.length > 0
    })
  }

  it('is an error rather than a late answer, and goes through wrappers of the store', async () => {
    const store = named('mine')
    const world = guardedOn(denyCache(store), { deadline: 100 })
    await world.limiter.consume('first')
    store.fault = () => new SluiceError('STORE_FAILED', 'refused')
    for (let i = 0; i < 2; i++) await world.limiter.consume('k')
    store.fault = () => SILENT
    await lose(world)
    expect(world.changes).toEqual([{ state: 'away', reason: 'refused', name: 'mine' }])
    expect(world.guarded.place.name).toBe('mine')
  })

  it('is what the store knows about its connection when calls are not answered', async () => {
    const store = named('mine', 'refused')
    store.fault = () => SILENT
    const world = guardedOn(store, { deadline: 50 })
    await lose(world)
    expect(world.changes).toEqual([{ state: 'away', reason: 'refused', name: 'mine' }])
  })

  it('is that of the latest probe in the line of each minute', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const store = named('mine')
    const { limiter } = guardedOn(store, { deadline: 50 })
    store.fault = () => new SluiceError('STORE_FAILED', 'read ECONNRESET')
    await limiter.consume('k')
    store.fault = () => new SluiceError('STORE_FAILED', 'this is a replica')
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await lines()).toEqual([
      expect.stringContaining('mine: read ECONNRESET.'),
      expect.stringContaining('mine: this is a replica.'),
    ])
  })

  it('is the error of a probe if calls were only not answered', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const store = named('mine')
    store.fault = () => SILENT
    const { limiter } = guardedOn(store, { deadline: 50 })
    const asked = limiter.consume('k')
    await vi.advanceTimersByTimeAsync(100)
    await asked
    store.fault = () => new SluiceError('STORE_FAILED', 'this is a replica')
    await vi.advanceTimersByTimeAsync(1000)
    expect(await lines()).toEqual([expect.stringContaining('mine: this is a replica.')])
  })

  it('is that of a part that does not answer, when another part answers again', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const store = named('mine')
    Object.assign(store.place, { partOf: (_limiter: string, key: string) => key })
    store.fault = () => SILENT
    const { limiter, changes } = guardedOn(store, { deadline: 50 })
    const asked = ['a', 'b'].map((key) => limiter.consume(key))
    await vi.advanceTimersByTimeAsync(100)
    await Promise.all(asked)
    store.fault = (operation) => ('charges' in operation && operation.charges[0]!.key === 'a' ? SILENT : undefined)
    await vi.advanceTimersByTimeAsync(2000)
    expect(changes.at(-1)).toMatchObject({ state: 'away', reason: 'b: answers again' })
    expect(await lines()).toEqual([])
    await vi.advanceTimersByTimeAsync(120_000)
    for (const line of await lines()) expect(line).toContain('mine: a: no answer within 50 ms. Limiters decide')
    expect((await lines()).length).toBe(2)
  })
})

describe('the name of a Redis', () => {
  const on = (given: object): string | undefined => redisStore({ evalsha() {}, ...given } as never).place.name

  it.each([
    [{ status: 'ready', options: { host: 'a', port: 1 } }, 'Redis at a:1'],
    [{ status: 'ready', options: { path: '/tmp/redis.sock', db: 2 } }, 'Redis at /tmp/redis.sock, database 2'],
    [{ status: 'ready', options: { sentinels: [{}], name: 'main' } }, 'Redis "main"'],
    [
      { isCluster: true, startupNodes: [7000, 'redis://user:secret@b:7001', 'redis://c'] },
      'Redis at 127.0.0.1:7000, b:7001, c:6379',
    ],
    [
      { _options: { rootNodes: [{ url: 'redis://:secret@d:1' }, { socket: { host: 'e', port: 2 } }] } },
      'Redis at d:1, e:2',
    ],
    [{ isOpen: true, options: { socket: { host: 'f', port: 3 }, database: 1 } }, 'Redis at f:3, database 1'],
    [{ config: { addresses: [{ host: 'g' }] } }, 'Redis at g:6379'],
    [{}, 'Redis'],
  ])('of %o is %s', (client, name) => {
    expect(on(client)).toBe(name)
  })

  it('has one listener for all stores of a client, which is removed when the last one is closed', async () => {
    const client = Object.assign(new EventEmitter(), { status: 'ready', evalsha() {} })
    const stores = Array.from({ length: 20 }, (_, i) => redisStore(client as never, { prefix: `${i}:` }))
    expect(client.eventNames().length).toBe(1)
    expect(() => client.emit('error', new Error('unhandled'))).toThrow('unhandled')
    expect(stores[3]!.place.trouble).toBe('unhandled')
    for (const each of stores.slice(1)) await each.close()
    await stores[1]!.close()
    expect(client.eventNames().length).toBe(1)
    await stores[0]!.close()
    expect(client.eventNames()).toEqual([])
  })

  it.each([
    [{ status: 'reconnecting' }, 'the client is not connected (reconnecting)'],
    [{ isReady: false }, 'the client is not connected'],
    [{ status: 'ready' }, undefined],
    [{ isReady: true }, undefined],
    [{}, undefined],
  ])('comes with its trouble: %o', (client, trouble) => {
    expect(redisStore({ evalsha() {}, ...client } as never).place.trouble).toBe(trouble)
  })

  it('comes with the first of several errors that one stands for', () => {
    const client = Object.assign(new EventEmitter(), { evalsha() {} }).on('error', () => undefined)
    const store = redisStore(client as never)
    client.emit('error', new AggregateError([new Error('refused'), new Error('other')]))
    expect(store.place.trouble).toBe('refused')
  })
})
