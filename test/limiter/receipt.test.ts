import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  concurrent,
  createLimiter,
  type Decision,
  type Duration,
  fixedWindow,
  gcra,
  guard,
  type Limit,
  type Limiter,
  memoryStore,
  perMinute,
  slidingWindowLog,
  stack,
  tokenBucket,
} from '../../src/index.ts'
import { rowStore } from '../../src/extend.ts'
import { LONGEST_RECEIPT } from '../../src/limiter/receipt.ts'
import { createRules } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { shared } from '../../src/util/copies.ts'
import { sha256 } from '../../src/util/sha256.ts'
import { recordWarnings } from '../support/guarded.ts'
import { laterStore } from '../support/later.ts'
import { mapRows } from '../support/map-rows.ts'
import { codeOf } from '../support/code-of.ts'

const keyer = (key: string): string => key

/** From now on, receipts are those of another process. */
function otherProcess(): void {
  shared('receipts', () => ({ decisions: new Map<string, unknown>() })).decisions.clear()
}

const START = 1_700_000_000_000

/** Makes limiters of one name on one clock. Each has a store of its own on one database, as in another process. */
function processes(limits: Limit | readonly Limit[]) {
  const clock = virtualClock(START)
  const database = mapRows(clock)
  const store = () => rowStore(database, { clock })
  const limiter = (): Limiter<string> => createLimiter({ name: 'api', keyer, limits: [limits].flat(), store: store() })
  return { clock, limiter, store }
}

async function used(limiter: Limiter<string>, key = 'ann'): Promise<number[]> {
  return (await limiter.peek(key, { cost: 0 })).limits.map((each) => each.used)
}

describe('a receipt', () => {
  it('is a short text of letters, digits, - and _ that JSON and headers keep', () => {
    const limiter = createLimiter({ keyer, limits: [perMinute(100), concurrent(5)] })
    const receipt = limiter.receipt(limiter.consume('Ä "\u{1F600}" \u0000'))
    expect(receipt).toMatch(/^sluice2_[\w-]+$/)
    expect(receipt.length).toBeLessThan(500)
    expect(Object.keys(limiter.consume('ann'))).not.toContain('receipt')
  })

  it.each([
    ['gcra', gcra({ quota: 100, window: '1h', burst: 50 })],
    ['tokenBucket', tokenBucket({ quota: 100, window: '500ms', refill: 'interval' })],
    ['fixedWindow', fixedWindow({ quota: 100, window: '1mo', anchor: 'calendar', timeZone: 'Europe/Berlin' })],
    ['a log', slidingWindowLog({ quota: 100, window: '500ms', block: { for: '10ms', factor: 2 }, notifyAt: [0.5] })],
    ['a capped limit', perMinute(40, { capCost: true })],
  ])('is settled in another process: %s', async (_, limits) => {
    const { limiter } = processes(limits)
    const warnings = recordWarnings()
    for (const actual of [0, 3, 45]) {
      const key = `key ${actual}`
      const there = limiter()
      const receipt = there.receipt(await there.consume(key, { cost: 40 }))
      otherProcess()
      const here = limiter()
      await here.settle(receipt, actual)
      await here.settle(receipt, 7)
      expect(await used(here, key)).toEqual([Math.min(actual, (await here.peek(key)).limits[0]!.limit.quota)])
    }
    warnings.stop()
    expect(warnings.codes).toEqual([])
  })

  it('carries functions of the limit, refunds and a cost of 0', async () => {
    const { limiter } = processes([perMinute(100, { name: 'tokens' }), perMinute(10, { name: 'requests' })])
    const there = limiter()
    const [free, paid] = [await there.consume('ann', { cost: 0 }), await there.consume('ann', { cost: 5 })]
    const receipts = [there.receipt(free), there.receipt(paid)] as const
    otherProcess()
    const here = limiter()
    await here.settle(receipts[0], ({ name }) => (name === 'tokens' ? 20 : 1))
    expect(await used(here)).toEqual([25, 6])
    await here.refund(receipts[1])
    expect(await used(here)).toEqual([20, 1])
  })

  it('does not carry what was settled before it was made, and carries the slots', async () => {
    const { limiter } = processes([perMinute(100), concurrent(5)])
    const there = limiter()
    const decision = await there.consume('ann')
    await there.settle(decision, 7)
    const receipt = there.receipt(decision)
    otherProcess()
    const here = limiter()
    await here.settle(receipt, 50)
    expect(await used(here)).toEqual([7, 1])
    await here.release(receipt)
    expect(await used(here)).toEqual([7, 0])
  })

  it('settles nothing for a denial, a peek, and a decision without the store', async () => {
    const { clock, limiter } = processes(perMinute(3))
    const there = limiter()
    const denied = await there.consume('ann', { cost: 5 })
    const peeked = await there.peek('ann', { cost: 2 })
    const receipts = [there.receipt(denied), there.receipt(peeked)]
    const dead = laterStore(memoryStore({ clock }), () => Promise.reject(new Error('away')))
    const without = createLimiter({ name: 'api', keyer, limits: perMinute(3), store: guard(dead) })
    const local = await without.consume('ann')
    expect(local.degraded).toBe('local')
    const receipt = without.receipt(local)
    await without.settle(receipt, 3)
    expect((await without.consume('ann')).allowed).toBe(false)
    otherProcess()
    for (const each of [...receipts, receipt]) await limiter().settle(each, 2)
    expect(await used(limiter())).toEqual([0])
  })

  it('settles nothing for a limit that admitted a cost of 0 when another one denied', async () => {
    const cost = (_: string, { name }: Limit): number => (name === 'tokens' ? 0 : 1)
    const limits = [perMinute(10, { name: 'tokens' }), perMinute(0, { name: 'requests' })]
    const store = processes(limits).store()
    const there = createLimiter({ name: 'api', keyer, limits, cost, store })
    const receipt = there.receipt(await there.consume('ann'))
    otherProcess()
    await there.settle(receipt, 5)
    expect(await used(there)).toEqual([0, 0])
  })

  it('works for stacks, and for any part of a stack', async () => {
    const limits = perMinute(10)
    const { store: storeOf } = processes(limits)
    const both = () => {
      const store = storeOf()
      const user = createLimiter({ name: 'user', keyer, limits, store, shared: true })
      const route = createLimiter({ name: 'route', keyer: () => 'all', limits, store, shared: true })
      return { route, all: stack(user, route) }
    }
    const { all: there } = both()
    const receipts = await Promise.all([0, 1].map(async () => there.receipt(await there.consume('ann', { cost: 3 }))))
    otherProcess()
    const here = both()
    await here.all.settle(receipts[0]!, 1)
    await here.route.settle(receipts[1]!, 1)
    expect(await used(here.all)).toEqual([2, 2])
  })

  it('works for rules', async () => {
    const { store } = processes([])
    const make = (): Limiter<object> => {
      const rules = createRules({ policies: [{ name: 'api', key: 'path', limits: [{ quota: 10, window: '1m' }] }] })
      return createLimiter({ rules, store: store(), shared: true }) as Limiter<object>
    }
    const input = { method: 'GET', path: '/' }
    const there = make()
    const receipt = there.receipt(await there.consume(input, { cost: 4 }))
    otherProcess()
    const here = make()
    await here.settle(receipt, 1)
    expect((await here.peek(input, { cost: 0 })).limits[0]!.used).toBe(1)
    const other = createLimiter({ name: 'rule', keyer, limits: perMinute(1) })
    expect(codeOf(() => other.refund(receipt))).toBe('FOREIGN_RECEIPT')
  })

  it('is refused by a limiter of another name', () => {
    const limiter = createLimiter({ name: 'api', keyer, limits: perMinute(3) })
    const receipt = limiter.receipt(limiter.consume('ann'))
    const other = createLimiter({ name: 'api2', keyer, limits: perMinute(3) })
    for (const work of [() => other.settle(receipt, 1), () => other.release(receipt), () => other.renew(receipt)])
      expect(codeOf(work)).toBe('FOREIGN_RECEIPT')
    expect(() => other.refund(receipt)).toThrow('expected a receipt of limiter "api2", got one of "api"')
  })

  it('is refused beyond 16,384 characters, when it is made and when it is read', () => {
    const limits = Array.from({ length: 200 }, (_, i) => perMinute(100, { name: `${'limit '.repeat(8)}${i}` }))
    const limiter = createLimiter({ keyer, limits })
    const decision = limiter.consume('ann')
    expect(() => limiter.receipt(decision)).toThrow(/it would have \d+ characters, and at most 16384/)
    expect(codeOf(() => limiter.receipt(decision))).toBe('INVALID_RECEIPT')
    expect(() => limiter.refund(`sluice2_${'a'.repeat(LONGEST_RECEIPT)}`)).toThrow('at most 16384 are read')
  })

  it('is refused with VERSION_MISMATCH if a newer or an older version wrote it', () => {
    const limiter = createLimiter({ keyer, limits: perMinute(3) })
    const receipt = limiter.receipt(limiter.consume('ann'))
    expect(codeOf(() => limiter.refund(receipt.replace('sluice2_', 'sluice3_')))).toBe('VERSION_MISMATCH')
    const older = 'expected format 2, got format 1 of another version'
    expect(() => limiter.refund(receipt.replace('sluice2_', 'sluice1_'))).toThrow(older)
    expect(codeOf(() => limiter.refund('sluice12_x'))).toBe('VERSION_MISMATCH')
    expect(codeOf(() => limiter.refund(receipt.replace('sluice2_', 'sluice02_')))).toBe('INVALID_RECEIPT')
  })

  it.each([
    ['with a receipt, it can be made again', true, 95],
    ['without a receipt, it is not made twice, since the store may have done it', false, 99],
  ])('a settlement that fails: %s', async (_, hasReceipt, remaining) => {
    let fails = false
    const store = laterStore(memoryStore(), async () => {
      if (!fails) return
      fails = false
      throw new Error('away')
    })
    const limiter = createLimiter({ keyer, limits: perMinute(100), store })
    const decision = await limiter.consume('ann')
    if (hasReceipt) limiter.receipt(decision)
    fails = true
    for (let i = 0; i < 2; i++) await limiter.settle(decision, 5)
    expect((await limiter.peek('ann', { cost: 0 })).limits[0]!.remaining).toBe(remaining)
  })

  it('is forgotten by its process after 10,000 others', () => {
    const limiter = createLimiter({ keyer, limits: perMinute(3), store: memoryStore({ clock: virtualClock() }) })
    for (let i = 0; i < 10_010; i++) limiter.receipt(limiter.peek('ann'))
    expect(shared('receipts', () => ({ decisions: new Map<string, unknown>() })).decisions.size).toBe(10_000)
  })
})

const inBase64 = (content: string | Uint8Array): string => Buffer.from(content as string).toString('base64url')

/** Returns a text with a right checksum. */
function forged(body: string): string {
  const sum = inBase64(sha256(new TextEncoder().encode(`sluice2_${body}`)).subarray(0, 8))
  return `sluice2_${sum}${body}`
}

/** Refuses a receipt with any change of a character, or one less. */
function expectExact(
  limiter: Limiter<string, Decision>,
  receipt: string,
  changesOf: (character: string) => string[],
): void {
  for (const [i, character] of receipt.split('').entries()) {
    for (const other of ['', ...changesOf(character)]) {
      const text = receipt.slice(0, i) + other + receipt.slice(i + 1)
      if (text === receipt) continue
      expect(['INVALID_RECEIPT', 'VERSION_MISMATCH']).toContain(codeOf(() => limiter.refund(text)))
    }
  }
}

const ID = 'abcdefghijklmnop'
/** A time at which a receipt may end. */
const LATER = START + 60_000

/** Returns a content with a charge under a limit that is written as JSON. */
const withLimit = (limit: string): string => `["${ID}",${LATER},["api",${limit},"k",1,1,1]]`

describe('a hostile receipt', () => {
  const limiter = createLimiter({
    name: 'api',
    keyer,
    limits: [perMinute(30), concurrent(5)],
    store: memoryStore({ clock: virtualClock(START) }),
  })
  const good = limiter.receipt(limiter.consume('ann'))

  /** Every use of a text throws a `SluiceError`, or works. */
  function outcomes(text: string): string[] {
    return [
      codeOf(() => limiter.renew(text)),
      codeOf(() => limiter.settle(text, 2)),
      codeOf(() => limiter.release(text)),
      codeOf(() => limiter.refund(text)),
      codeOf(() => limiter.receipt(text)),
    ]
  }

  it('is any other text', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary', maxLength: 300 }),
          fc.base64String().map((each) => `sluice2_${each}`),
        ),
        (text) => {
          expect(new Set(outcomes(text))).toEqual(new Set(['INVALID_RECEIPT']))
        },
      ),
    )
  })

  it('is a receipt with any change of a character, or cut', () => {
    expectExact(limiter, good, (character) => ['A', '-', '\u0000', character.toUpperCase() + character])
    for (let i = 0; i < good.length; i++) expect(codeOf(() => limiter.refund(good.slice(0, i)))).toBe('INVALID_RECEIPT')
  })

  it('is any JSON with a right checksum', () => {
    const limitLike = fc.oneof(
      fc.json().map((each) => JSON.parse(each) as unknown),
      fc.record({
        algorithm: fc.constantFrom('gcra', 'fixedWindow', 'concurrent', 'x', '__proto__'),
        quota: fc.integer(),
        window: fc.oneof(fc.integer(), fc.string()),
        name: fc.string(),
        anchor: fc.constantFrom('calendar', 'clock'),
      }),
    )
    const charge = fc.tuple(
      fc.constantFrom('api', 'other', 1, null),
      fc.oneof(fc.constant({ ...perMinute(30) }), limitLike),
      fc.oneof(fc.string(), fc.constant('__proto__')),
      fc.oneof(fc.nat(), fc.double(), fc.constant(-1)),
      fc.oneof(fc.nat(), fc.double(), fc.constant(1e300)),
      fc.oneof(fc.nat(), fc.double(), fc.constant(9e15)),
    )
    const content = fc.oneof(
      fc.json(),
      fc
        .tuple(
          fc.oneof(fc.constant(ID), fc.string()),
          fc.oneof(fc.constant(LATER), fc.nat(), fc.double(), fc.string()),
          charge,
          charge,
        )
        .map((each) => JSON.stringify(each)),
    )
    fc.assert(
      fc.property(content, (text) => {
        for (const code of outcomes(forged(inBase64(text))))
          expect(code).toMatch(/^(none|INVALID_RECEIPT|FOREIGN_RECEIPT|EXPIRED_RECEIPT)$/)
        expect(Object.keys(Object.prototype)).toEqual([])
      }),
    )
  })

  it.each([
    ['no UTF-8', Uint8Array.of(255, 255)],
    ['no JSON', '{'],
    ['deep JSON', '['.repeat(5000) + ']'.repeat(5000)],
    ['a deep limit', withLimit('{"block":'.repeat(1000) + '1' + '}'.repeat(1000))],
    ['a prototype', withLimit('{"__proto__":{"algorithm":"gcra"},"quota":1,"window":60000}')],
    ['an algorithm that is not known', withLimit('{"algorithm":"mine","quota":1,"window":60000}')],
    ['a long key', JSON.stringify([ID, LATER, ['api', perMinute(1), 'k'.repeat(5000), 1, 1, 1]])],
    ['a long identity', JSON.stringify(['a'.repeat(5000), LATER])],
    ['an identity that could be another key', JSON.stringify(['{user}:someone:1', LATER])],
    ['no end', JSON.stringify([ID])],
    ['an end in 400 days', JSON.stringify([ID, START + 400 * 86_400_000])],
  ])('is refused: %s', (_, content) => {
    expect(codeOf(() => limiter.refund(forged(inBase64(content))))).toBe('INVALID_RECEIPT')
  })

  it('is refused: one character of base64', () => {
    expect(codeOf(() => limiter.refund(forged('a')))).toBe('INVALID_RECEIPT')
  })
})

describe('the end of a receipt', () => {
  const make = (options: object, window: Duration = '1m') => {
    const clock = virtualClock(START)
    const limits = fixedWindow({ quota: 100, window })
    const limiter = createLimiter<string>({ keyer, limits, store: memoryStore({ clock }), ...options })
    const decision = limiter.consume('ann', { cost: 10 })
    return { clock, limiter, decision, receipt: limiter.receipt(decision) }
  }

  it.each<[string, object, Duration, number]>([
    ['after an hour', {}, '1m', 3_600_000],
    ['after the window', {}, '2h', 7_200_000],
    ['after a day', {}, '30d', 86_400_000],
    ['after receiptFor', { receiptFor: '5m' }, '30d', 300_000],
  ])('is %s', (_, options, window, life) => {
    const { clock, limiter, receipt } = make(options, window)
    clock.advance(life - 1)
    expect(limiter.receipt(receipt)).toBe(receipt)
    clock.advance(1)
    for (const work of [
      () => limiter.settle(receipt, 1),
      () => limiter.refund(receipt),
      () => limiter.renew(receipt),
      () => limiter.receipt(receipt),
    ])
      expect(codeOf(work)).toBe('EXPIRED_RECEIPT')
  })

  it('is the longest of a stack', () => {
    const clock = virtualClock(START)
    const store = memoryStore({ clock })
    const part = (name: string, receiptFor: Duration) =>
      createLimiter<string>({ name, keyer, limits: perMinute(9), store, receiptFor })
    const both = stack(part('one', '1m'), part('other', '3m'))
    const receipt = both.receipt(both.consume('ann'))
    clock.advance(179_999)
    expect(codeOf(() => both.refund(receipt))).toBe('none')
  })

  it('is also that of its decision, with a warning', () => {
    const { clock, limiter, decision } = make({ receiptFor: '1m' }, '2h')
    const other = limiter.consume('ann', { cost: 10 })
    clock.advance(60_000)
    limiter.refund(decision)
    limiter.refund(other)
    expect(limiter.peek('ann', { cost: 0 }).limits[0]!.used).toBe(10)
  })

  it.each([0, '1 fortnight', '367d', -1, 1.5])('is no time such as %s', (receiptFor) => {
    expect(codeOf(() => make({ receiptFor }))).toBe('INVALID_OPTION')
  })
})

describe('a signed receipt', () => {
  const [one, other] = ['the first secret of all', 'another secret of all']
  const make = (...[receiptSecret]: readonly (string | readonly string[])[]) =>
    limiterWith(receiptSecret === undefined ? {} : { receiptSecret })
  const limiterWith = (options: { readonly receiptSecret?: string | readonly string[] }) =>
    createLimiter({ keyer, limits: perMinute(100), store: memoryStore({ clock: virtualClock(START) }), ...options })
  const written = (limiter: Limiter<string, Decision>) => limiter.receipt(limiter.consume('ann', { cost: 10 }))

  it('is read with its secret, also by hand-written SHA-256', () => {
    const receipt = written(make(one))
    expect(receipt).toMatch(/^sluice2s_[\w-]{23,}$/)
    const body = receipt.slice('sluice2s_'.length + 22)
    const digest = inBase64(createHmac('sha256', one).update(`sluice2s_${body}`).digest().subarray(0, 16))
    expect(receipt).toBe(`sluice2s_${digest}${body}`)
    expect(codeOf(() => make(one).settle(receipt, 1))).toBe('none')
  })

  it('is refused with another secret, and without one', () => {
    const receipt = written(make(one))
    expect(() => make(other).settle(receipt, 1)).toThrow('signed with another secret')
    expect(() => make().settle(receipt, 1)).toThrow('it is signed. Give both limiters the same `receiptSecret`')
    expect(() => make(one).settle(written(make()), 1)).toThrow('is not signed')
    expect(codeOf(() => make(one).settle(receipt.replace('sluice2s_', 'sluice2_'), 1))).toBe('INVALID_RECEIPT')
  })

  it('is read while its secret changes', () => {
    const [before, after] = [written(make(one)), written(make([other, one]))]
    expect(codeOf(() => make([other, one]).settle(before, 1))).toBe('none')
    expect(codeOf(() => make(other).settle(after, 1))).toBe('none')
    expect(codeOf(() => make(one).settle(after, 1))).toBe('INVALID_RECEIPT')
  })

  it('is refused with any change of a character', () => {
    const limiter = make(one)
    expectExact(limiter, written(limiter), () => ['A', '_'])
  })

  it('has no secret that is undefined, such as an environment variable that is not set', () => {
    for (const receiptSecret of [process.env['SLUICE_NO_SUCH_SECRET'], [undefined]])
      expect(codeOf(() => limiterWith({ receiptSecret: receiptSecret as never }))).toBe('INVALID_OPTION')
  })

  it.each([['short'], [[]], [['a secret of all times', 'short']], [7], [Array.from({ length: 11 }, () => one)]])(
    'has no secret such as %j',
    (secret) => {
      expect(codeOf(() => make(secret as never))).toBe('INVALID_OPTION')
      expect(() => make(secret as never)).not.toThrow('short')
    },
  )
})
