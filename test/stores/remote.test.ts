import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import {
  concurrent,
  createLimiter,
  denyCache,
  fixedWindow,
  gcra,
  guard,
  lease,
  type Limiter,
  type Clock,
  memoryStore,
  slidingWindowLog,
  type Store,
} from '../../src/index.ts'
import { remoteStore, serveStore, type StoreMessage } from '../../src/extend.ts'
import { preflightLimiterOf } from '../../src/limiter/adapted.ts'
import { createRules } from '../../src/rules/index.ts'
import { MOST_CHARACTERS } from '../../src/stores/remote/message.ts'
import { hasPenalty } from '../../src/stores/store.ts'
import { storeBehaviours, virtualClock } from '../../src/testing.ts'
import { asJson, connectedStore } from '../support/connected-store.ts'

const perKey = (key: string): string => key
const limiterOn = (store: Store, limits = gcra({ quota: 2, window: '1h' })): Limiter<string> =>
  createLimiter<string>({ name: 'api', keyer: perKey, limits, store })

describe.each([
  ['', (clock: Clock) => connectedStore(memoryStore({ clock }), { clock })],
  [', each operation by itself', (clock: Clock) => connectedStore(memoryStore({ clock }), { clock, batch: false })],
  [
    ' inside guard and denyCache',
    (clock: Clock) => guard(denyCache(connectedStore(memoryStore({ clock }), { clock }))),
  ],
])('a store in another place%s', (_, make) => {
  for (const { name, run } of storeBehaviours(make, { runs: 25 })) it(name, run, 60_000)
})

describe('remoteStore', () => {
  it('sends the operations of one turn in one message', async () => {
    const sent: StoreMessage[] = []
    const limiter = limiterOn(connectedStore(memoryStore(), {}, sent), gcra({ quota: 5, window: '1h' }))
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.consume('ada')))
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(5)
    expect(sent).toHaveLength(1)
    expect(sent[0]!.operations).toHaveLength(20)
    expect(sent[0]!.policies).toHaveLength(1)
  })

  it('divides many operations into messages of at most 64 kB', async () => {
    const sent: StoreMessage[] = []
    const limiter = limiterOn(connectedStore(memoryStore(), {}, sent))
    // Each character of these keys is six characters of JSON.
    const keys = Array.from({ length: 3000 }, (_, i) => `${'\ud800'.repeat(56)}${i}`)
    const decisions = await Promise.all(keys.map((key) => limiter.consume(key)))
    expect(decisions.every(({ allowed }) => allowed)).toBe(true)
    expect(sent.length).toBeGreaterThan(3)
    expect(sent.flatMap(({ operations }) => operations)).toHaveLength(3000)
    for (const message of sent) expect(JSON.stringify(message).length).toBeLessThanOrEqual(MOST_CHARACTERS)
  })

  it('refuses a decision that no message has room for', async () => {
    const limits = Array.from({ length: 300 }, (_, i) =>
      gcra({ name: `${i}${'n'.repeat(250)}`, quota: 5, window: '1h' }),
    )
    const limiter = createLimiter<string>({ keyer: perKey, limits, store: connectedStore(memoryStore()) })
    await expect(limiter.consume('ada')).rejects.toMatchObject({ code: 'STORE_REJECTED' })
  })

  it('refunds a decision that was given up and admitted later', async () => {
    const inner = memoryStore()
    const answer = serveStore(inner)
    let isSlow = true
    const kinds: string[] = []
    const slow = remoteStore(async (message) => {
      if (isSlow) await pause(150)
      kinds.push(...message.operations.map(({ kind }) => kind))
      return answer(message)
    })
    const changes: string[] = []
    const guarded = guard(slow, { deadline: '50ms', onChange: ({ state }) => void changes.push(state) })
    const limiter = limiterOn(guarded, gcra({ quota: 2, window: '1h' }))
    const decision = await limiter.consume('ada')
    expect(decision.degraded).toBe('local')
    isSlow = false
    const there = limiterOn(inner, gcra({ quota: 2, window: '1h' }))
    const used = async (): Promise<number> => (await there.peek('ada', { cost: 0 })).limits[0]!.used
    await vi.waitFor(() => expect(kinds).toEqual(expect.arrayContaining(['consume', 'adjust'])), 5000)
    await vi.waitFor(async () => expect(await used()).toBe(0), 5000)
    await guarded.close()
  })

  it('asks the part of the key, and refuses a decision in several parts', async () => {
    const places: Record<string, Store> = { a: memoryStore(), b: memoryStore() }
    const store = remoteStore((message, part) => serveStore(places[part]!)(message), { partOf: (_, key) => key[0]! })
    const limiter = limiterOn(store, gcra({ quota: 1, window: '1h' }))
    expect((await limiter.consume('a1')).allowed).toBe(true)
    expect((await limiter.consume('b1')).allowed).toBe(true)
    expect((await limiterOn(places['a']!, gcra({ quota: 1, window: '1h' })).peek('a1')).allowed).toBe(false)
    expect((await limiterOn(places['a']!, gcra({ quota: 1, window: '1h' })).peek('b1')).allowed).toBe(true)
  })

  it('reads the time of the other place', async () => {
    const clock = virtualClock(1_800_000_000_000)
    const store = connectedStore(memoryStore({ clock }))
    await limiterOn(store).consume('ada')
    expect(Math.abs(store.clock.now() - clock.now())).toBeLessThan(5000)
  })

  it('is ready when the other place answers', async () => {
    await expect(connectedStore(memoryStore()).ready!()).resolves.toBeUndefined()
    const away = remoteStore(() => Promise.reject(new Error('connect ECONNREFUSED')))
    await expect(away.ready!()).rejects.toMatchObject({ code: 'STORE_FAILED', message: /ECONNREFUSED/ })
  })

  it.each([
    ['nothing', undefined],
    ['a text', 'ok'],
    ['a page of HTML as JSON', { statusCode: 502 }],
    ['too few answers', { sluice: 1, now: 1, answers: [] }],
    ['another version', { sluice: 2, now: 1, answers: [{ verdicts: [] }] }],
    ['half of a verdict', { sluice: 1, now: 1, answers: [{ verdicts: [{ allowed: true }] }] }],
    ['a verdict with texts', { sluice: 1, now: 1, answers: [{ verdicts: [{ ...verdict(), remaining: '5' }] }] }],
    ['a negative time', { sluice: 1, now: 1, answers: [{ verdicts: [{ ...verdict(), retryAfter: -1 }] }] }],
    ['an unknown code', { sluice: 1, now: 1, answers: [{ error: { code: 'GONE', message: 'gone' } }] }],
  ])('fails for %s in place of an answer', async (_, given) => {
    const limiter = limiterOn(remoteStore(() => Promise.resolve(given)))
    await expect(limiter.consume('ada')).rejects.toMatchObject({ code: 'STORE_FAILED' })
  })

  it('rejects after close, also what waits', async () => {
    const store = connectedStore(memoryStore())
    const limiter = limiterOn(store)
    const waiting = limiter.consume('ada')
    await Promise.all([store.close(), expect(waiting).rejects.toMatchObject({ code: 'STORE_CLOSED' })])
    await expect(limiter.consume('ada')).rejects.toMatchObject({ code: 'STORE_CLOSED' })
  })

  it.each([
    [undefined, {}, 'remoteStore'],
    [() => 0, { name: 1 }, 'name'],
    [() => 0, { partOf: 'a' }, 'partOf'],
    [() => 0, { batch: 1 }, 'batch'],
  ])('refuses %o with %o', (send, options, option) => {
    expect(() => remoteStore(send as never, options as never)).toThrow(new RegExp(`^${option}: expected`))
  })

  it('leases from another place, and never admits more than was charged there', async () => {
    const inner = memoryStore()
    const sent: StoreMessage[] = []
    const limits = fixedWindow({ quota: 1000, window: '1h' })
    const limiter = limiterOn(lease(connectedStore(inner, {}, sent), { for: '10s' }), limits)
    let admitted = 0
    for (let i = 0; i < 1100; i++) if ((await limiter.consume('ada')).allowed) admitted++
    expect(admitted).toBe(1000)
    expect(sent.length).toBeLessThan(600)
  })
})

function verdict(): object {
  return { allowed: true, remaining: 1, retryAfter: 0, resetAfter: 0, delay: 0, at: 1, charged: 1, lockedFor: 0 }
}

const schema = JSON.parse(readFileSync(new URL('../../store-message.schema.json', import.meta.url), 'utf8')) as object
const isMessage = new Ajv({ strict: true, allowUnionTypes: true, strictRequired: false }).compile(schema)

describe('serveStore', () => {
  const valid: StoreMessage = {
    sluice: 1,
    policies: [{ limiter: 'api', limit: gcra({ quota: 2, window: '1h' }) }],
    operations: [{ kind: 'consume', charges: [{ policy: 0, key: 'ada', cost: 1 }], fresh: false }],
  }

  it('answers what the schema describes, and nothing else', async () => {
    const sent: StoreMessage[] = []
    const store = connectedStore(memoryStore(), {}, sent)
    const limits = [slidingWindowLog({ quota: 9, window: '1h' }), concurrent(5)]
    const limiter = createLimiter<string>({ keyer: perKey, limits, store, receiptFor: '1h' })
    const decision = await limiter.consume('ada')
    await limiter.renew(decision)
    await limiter.settle(limiter.receipt(decision), 2)
    await limiter.release(decision)
    await limiter.block('ada', '1m')
    await limiter.peek('ada')
    await limiter.reset('ada')
    expect(new Set(sent.flatMap(({ operations }) => operations.map(({ kind }) => kind))).size).toBe(6)
    for (const message of sent) expect([isMessage(asJson(message)), isMessage.errors]).toEqual([true, null])
  })

  it('reads the longest keys and names that there are', async () => {
    const sent: StoreMessage[] = []
    const store = connectedStore(memoryStore(), {}, sent)
    const key = 'k'.repeat(64)
    const preflights = preflightLimiterOf(limiterOn(store))
    expect((await preflights.consume(key)).remaining).toBe(1)
    await preflights.reset(key)
    const limits = [{ name: 'n'.repeat(256), quota: 5, window: '1h' }]
    const rules = createRules({ policies: [{ name: 'p'.repeat(128), key: 'attribute:key', limits }] })
    const limiter = createLimiter({ name: 'l'.repeat(256), rules, store })
    const input = { method: 'GET', path: '/', attributes: { key } }
    const decision = await limiter.consume(input)
    expect(decision.remaining).toBe(4)
    await limiter.refund(limiter.receipt(decision))
    await limiter.reset(input)
    for (const message of sent) expect([isMessage(asJson(message)), isMessage.errors]).toEqual([true, null])
  })

  it.each<[string, unknown, string?]>([
    ['nothing', undefined],
    ['a list', [valid]],
    ['another version', { ...valid, sluice: 2 }, 'VERSION_MISMATCH'],
    ['no version', { ...valid, sluice: undefined }, 'VERSION_MISMATCH'],
    ['too many operations', { ...valid, operations: Array.from({ length: 257 }, () => valid.operations[0]) }],
    ['too many policies', { ...valid, policies: Array.from({ length: 1025 }, () => valid.policies[0]) }],
  ])('refuses %s, and changes nothing', async (_, message, code = 'INVALID_MESSAGE') => {
    const inner = memoryStore()
    expect(await serveStore(inner)(message)).toMatchObject({ sluice: 1, error: { code } })
    expect((await limiterOn(inner).peek('ada', { cost: 0 })).limits[0]!.used).toBe(0)
  })

  it.each<[string, unknown]>([
    ['an unknown operation', { kind: 'drop', charges: [] }],
    ['an operation that is a text', 'consume'],
    ['a reset without a key', { kind: 'forget', limiter: 'api' }],
    ['too many charges', withCharges(Array.from({ length: 1025 }, () => ({ policy: 0, key: 'a', cost: 1 })))],
    ['a policy that is not there', withCharges([{ policy: 1, key: 'a', cost: 1 }])],
    ['a policy by a name of Object', withCharges([{ policy: '__proto__', key: 'a', cost: 1 }])],
    ['a key that is too long', withCharges([{ policy: 0, key: 'a'.repeat(129), cost: 1 }])],
    ['a key that is an object', withCharges([{ policy: 0, key: {}, cost: 1 }])],
    ['a negative cost', withCharges([{ policy: 0, key: 'a', cost: -1 }])],
    ['a cost that is no number', withCharges([{ policy: 0, key: 'a', cost: NaN }])],
  ])('refuses %s alone, and does the other operations of its message', async (_, operation) => {
    const inner = memoryStore()
    const message = { ...valid, operations: [...valid.operations, operation] }
    expect(await serveStore(inner)(message)).toMatchObject({
      answers: [{ verdicts: [{ allowed: true }] }, { error: { code: 'INVALID_MESSAGE' } }],
    })
    expect((await limiterOn(inner).peek('a', { cost: 0 })).limits[0]!.used).toBe(0)
    expect((await limiterOn(inner).peek('ada', { cost: 0 })).limits[0]!.used).toBe(1)
  })

  function withCharges(charges: readonly unknown[]): object {
    return { kind: 'consume', charges, fresh: false }
  }

  it('answers UNKNOWN_ALGORITHM for the limits of an algorithm that this process does not have, and does the others', async () => {
    const unknown = { limiter: 'api', limit: { algorithm: 'coolDown', quota: 1, window: 1000 } }
    const operation = { kind: 'consume', charges: [{ policy: 1, key: 'ada', cost: 1 }], fresh: false }
    const message = { ...valid, policies: [...valid.policies, unknown], operations: [operation, ...valid.operations] }
    expect(await serveStore(memoryStore())(message)).toMatchObject({
      answers: [{ error: { code: 'UNKNOWN_ALGORITHM' } }, { verdicts: [{ allowed: true }] }],
    })
  })

  it('distinguishes a settlement of a higher cost from a penalty', async () => {
    const memory = memoryStore()
    const penalties: boolean[] = []
    const run: typeof memory.run = (operation, reply) => {
      if (operation.kind === 'adjust') penalties.push(hasPenalty(operation))
      return memory.run(operation, reply)
    }
    const limiter = limiterOn(connectedStore({ ...memory, run }))
    await limiter.settle(await limiter.consume('ada'), 3)
    await limiter.penalize('ada', 1)
    expect(penalties).toEqual([false, true])
  })

  it('keeps no more than 10,000 limits of senders', async () => {
    const answer = serveStore(memoryStore({ maxKeys: 10 }))
    const before = process.memoryUsage().heapUsed
    for (let i = 0; i < 300; i++) {
      const policies = Array.from({ length: 100 }, (_, j) => ({
        limiter: `api ${i}`,
        limit: { algorithm: 'gcra', name: `${i} ${j}`, quota: 5, window: 1000 },
      }))
      await answer({ sluice: 1, policies, operations: [] })
    }
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(120_000_000)
  })

  it('keeps no limit that is written in many characters', async () => {
    const window = `${'0'.repeat(60_000)}1h`
    const message = { ...valid, policies: [{ limiter: 'api', limit: { algorithm: 'gcra', quota: 5, window } }] }
    expect(await serveStore(memoryStore())(message)).toMatchObject({ answers: [{ error: { code: 'INVALID_OPTION' } }] })
  })

  it('survives anything that a sender writes', async () => {
    const answer = serveStore(memoryStore({ maxKeys: 100 }))
    const part = fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom(undefined, null, 0, -1, 1, 1.5, NaN, Infinity, '', 'a', '__proto__', 'constructor', [], {}),
      fc.constantFrom(...valid.policies, ...valid.operations),
      fc.anything({ maxDepth: 2 }),
    )
    const kind = fc.constantFrom('consume', 'peek', 'adjust', 'renew', 'lock', 'forget', 'drop')
    const charge = fc.record(
      { policy: fc.oneof(fc.constant(0), part), key: fc.oneof(fc.string(), part), cost: part, at: part, charged: part },
      { requiredKeys: ['policy', 'key'] },
    )
    const operation = fc.record(
      {
        kind,
        charges: fc.oneof(fc.array(charge, { maxLength: 3 }), part),
        units: fc.oneof(fc.array(part, { maxLength: 3 }), part),
        fresh: part,
        ms: part,
        mode: part,
        limiter: part,
        key: part,
        receipt: part,
        within: part,
      },
      { requiredKeys: ['kind'] },
    )
    const message = fc.record({
      sluice: fc.constantFrom(1, 1, 1, 2, '1'),
      policies: fc.oneof(fc.constant(valid.policies), fc.array(part, { maxLength: 3 })),
      operations: fc.oneof(fc.array(operation, { maxLength: 4 }), part),
    })
    await fc.assert(
      fc.asyncProperty(fc.oneof(message, part), async (given) => {
        const result = await answer(given)
        expect(result.sluice).toBe(1)
        expect('error' in result || result.answers.length === (given as StoreMessage).operations.length).toBe(true)
        expect(JSON.stringify(result).length).toBeLessThan(MOST_CHARACTERS)
      }),
      { numRuns: Number(process.env['SLUICE_MESSAGES'] ?? 1500) },
    )
    expect(({} as Record<string, unknown>)['limiter']).toBeUndefined()
  })
})
