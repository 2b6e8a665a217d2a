import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import {
  concurrent,
  createLimiter,
  fixedWindow,
  gcra,
  type Limiter,
  slidingWindowLog,
  stack,
  type Store,
} from '../../../src/index.ts'
import { type Changes, type RowDatabase, rowStore, type RowWrite, type SyncRowDatabase } from '../../../src/extend.ts'
import { decodeRecord, decodeStored, encodeRecord, encodeRow, MOST_BYTES } from '../../../src/engine/codec.ts'
import { Row } from '../../../src/engine/row.ts'
import type { CompiledLimit } from '../../../src/engine/compiled-limit.ts'
import type { Limit } from '../../../src/engine/limit.ts'
import { storeBehaviours, virtualClock } from '../../../src/testing.ts'
import { afterTest } from '../../support/after-test.ts'
import { recordWarnings } from '../../support/guarded.ts'
import { warningsOf } from '../../support/http.ts'
import { mapRows } from '../../support/map-rows.ts'

interface Clock {
  now(): number
}

class Rows implements RowDatabase {
  readonly rows = new Map<string, Uint8Array>()
  /** How many keys each transaction had. */
  readonly widths: number[] = []
  readonly readOnly: boolean[] = []
  most = 0
  #running = 0
  readonly #clock: Clock

  constructor(clock: Clock = Date) {
    this.#clock = clock
  }

  async transact<Result>(
    keys: readonly string[],
    change: (rows: readonly (Uint8Array | undefined)[], now: number) => Changes<Result>,
    { readOnly }: { readOnly: boolean },
  ): Promise<Result> {
    this.most = Math.max(this.most, ++this.#running)
    this.widths.push(keys.length)
    this.readOnly.push(readOnly)
    const stored = keys.map((key) => this.rows.get(key)?.slice())
    const now = Math.round(this.#clock.now() * 1000)
    const { writes, result } = change(stored, now)
    await new Promise(setImmediate)
    for (const { key, row } of writes) {
      if (row === undefined) this.rows.delete(key)
      else this.rows.set(key, row.slice())
    }
    this.#running--
    return result
  }
}

const perKey = (key: string): string => key
function on(database: RowDatabase, limits: Limit = gcra({ quota: 10, window: '1h' }), name = 'api'): Limiter<string> {
  // Another store for each limiter, as in another process.
  const store = rowStore({ transact: (keys, change, options) => database.transact(keys, change, options) })
  return createLimiter<string>({ name, keyer: perKey, limits, store })
}
const RECORD = '["api","ada"]'

function textOf({ rows }: Rows): string {
  return Buffer.from(rows.get(RECORD)!).toString()
}

/** The row of limits, with a hash that is right. */
function sealed(limits: object): Uint8Array {
  const text = JSON.stringify(limits)
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  const sum = (hash >>> 0).toString(16).padStart(8, '0')
  return new Uint8Array(Buffer.from(`{"v":1,"sum":"${sum}","limits":${text}}`))
}

describe.each([
  ['later', (clock: Clock) => rowStore(new Rows(clock))],
  ['later, with repeated transactions', (clock: Clock) => rowStore(mapRows(clock, true))],
])('a store of rows in a database that answers %s', (_, make) => {
  for (const { name, run } of storeBehaviours(make, { runs: 50 })) it(name, run, 60_000)
})

describe('a database that loses writes', () => {
  beforeEach(() => {
    vi.stubEnv('VITEST', undefined)
    vi.stubEnv('NODE_ENV', 'production')
  })

  /** Rows in a `Map`, in which a function stores a write. Its clock moves on by `step` milliseconds for each transaction. */
  function database(store: (rows: Map<string, Uint8Array>, write: RowWrite) => void, step = 0): RowDatabase {
    const rows = new Map<string, Uint8Array>()
    let time = Date.now()
    return {
      transact(keys, change) {
        const stored = keys.map((key) => rows.get(key))
        const { writes, result } = change(stored, (time += step) * 1000)
        for (const write of writes) store(rows, write)
        return result
      },
    }
  }
  function inOneBuffer(given: RowDatabase): RowDatabase {
    const buffer = Buffer.alloc(1000)
    const read = (row?: Uint8Array | null): Buffer | undefined =>
      row ? buffer.fill(row, 0, row.length).subarray(0, row.length) : undefined
    return {
      transact: (keys, change, options) =>
        given.transact(keys, (stored, now) => change(stored.map(read), now), options),
    }
  }
  let writes = 0
  const hourly = gcra({ quota: 100, window: '1h' })
  const keep = (rows: Map<string, Uint8Array>, { key, row }: RowWrite): void => void rows.set(key, row!)

  /** Uses a database for some requests. Returns the codes of the warnings. */
  function codesAfter(requests: number, given: RowDatabase, limits: Limit = hourly): Promise<readonly string[]> {
    const limiter = createLimiter({ keyer: perKey, limits, store: rowStore(given) })
    return warningsOf(async () => {
      for (let i = 0; i < requests; i++) await limiter.consume('ada')
    })
  }

  it.each<[string, RowDatabase]>([
    ['that stores nothing', database(() => undefined)],
    ['that answers at once', { ...database(() => undefined), sync: true } as SyncRowDatabase],
    ['that uses another key', database((rows, { key, row }) => void rows.set(`${key}!`, row!))],
    ['that stores new rows only', database((rows, write) => void (rows.has(write.key) || keep(rows, write)))],
    ['that stores rows later', database((rows, write) => void setTimeout(() => keep(rows, write), 1000))],
    ['whose swap is always true', { read: (keys: []) => keys.map(() => undefined), swap: () => true } as never],
  ])('causes one warning: one %s', async (_, given) => {
    expect(await codesAfter(10, given)).toEqual([])
    expect(await codesAfter(50, given)).toEqual(['SLUICE_ROWS_LOST'])
  })

  it.each<[string, RowDatabase, Limit?]>([
    ['stores all rows', database(keep)],
    ['has changed a row before', database((rows, write) => void (writes++ < 2 && keep(rows, write)))],
    ['repeats transactions', mapRows(Date, true)],
    ['reads each row into the same buffer', inOneBuffer(database(keep, 999)), gcra({ quota: 3600, window: '1h' })],
    ['may delete the row already', database(() => undefined, 60_000), fixedWindow({ quota: 1, window: '1m' })],
    ['may reset the row of a client that comes back after six seconds', database(() => undefined, 6000)],
    ['may get back a slot from another process', database(() => undefined), concurrent({ quota: 100 })],
  ])('is not one that %s', async (_, given, limits) => {
    expect(await codesAfter(100, given, limits)).toEqual([])
  })

  it('is no warning in a test run', async () => {
    vi.stubEnv('VITEST', 'true')
    expect(
      await codesAfter(
        50,
        database(() => undefined),
      ),
    ).toEqual([])
  })

  it('names the place', async () => {
    const { messages, stop } = recordWarnings()
    afterTest(stop)
    const place = { name: 'Mongo at db1' }
    const limiter = createLimiter({
      keyer: perKey,
      limits: hourly,
      store: rowStore({ ...database(() => undefined), place }),
    })
    for (let i = 0; i < 50; i++) await limiter.consume('ada')
    await vi.waitFor(() => expect(messages).toEqual([expect.stringMatching(/^Mongo at db1 has lost ten writes/)]))
  })
})

describe('rowStore', () => {
  it.each([
    [undefined, 'rowStore'],
    [{}, 'rowStore'],
    [{ transact: 1 }, 'rowStore'],
    [{ transact: (): number => 0, sync: 1 }, 'sync'],
    [{ transact: (): number => 0, ready: 1 }, 'ready'],
    [{ transact: (): number => 0, close: 1 }, 'close'],
    [{ transact: (): number => 0, mostKeys: 0 }, 'mostKeys'],
    [{ transact: (): number => 0, mostKeys: '100' }, 'mostKeys'],
  ])('refuses %o', (database, option) => {
    expect(() => rowStore(database as never)).toThrow(new RegExp(`^${option}: expected`))
  })

  it('refuses unknown options', () => {
    expect(() => rowStore(new Rows(), { clok: Date } as never)).toThrow(/clok/)
  })

  it.each([
    ['milliseconds', undefined, 1_767_225_600_000, 'INVALID_CLOCK'],
    ['no number', undefined, NaN, 'INVALID_CLOCK'],
    ['a text as the time', undefined, '1767225600000000', 'INVALID_CLOCK'],
    ['no time', undefined, undefined, 'INVALID_CLOCK'],
    ['rows that are no bytes', 'text', Date.now() * 1000, 'STORE_FAILED'],
    ['rows of other numbers than bytes', new Uint16Array(8), Date.now() * 1000, 'STORE_FAILED'],
  ])('refuses %s', async (_, row, now, code) => {
    const transact: RowDatabase['transact'] = ({ length }, change) =>
      change(
        Array.from({ length }, () => row as never),
        now as number,
      ).result
    await expect(on({ transact }).consume('ada')).rejects.toMatchObject({ code })
  })

  it.each([
    ['fewer rows than keys', []],
    ['more rows than keys', [undefined, undefined]],
    ['rows in an object', { rows: [undefined] }],
  ])('refuses %s, which would be rows of other keys', async (_, stored) => {
    const transact: RowDatabase['transact'] = (_keys, change) => change(stored as never, Date.now() * 1000).result
    await expect(on({ transact }).consume('ada')).rejects.toMatchObject({
      code: 'STORE_FAILED',
      message: expect.stringContaining('transact: expected 1 rows, got') as string,
    })
  })

  const down = (): never => {
    throw new Error('down')
  }
  it.each([
    ['throws', down],
    ['rejects', async () => down()],
  ])('rejects with STORE_FAILED when transact %s, and charges nothing', async (_, transact) => {
    const rows = new Rows()
    const limiter = on(rows)
    const working = rows.transact.bind(rows)
    rows.transact = transact as never
    await expect(limiter.consume('ada')).rejects.toMatchObject({ code: 'STORE_FAILED', cause: { message: 'down' } })
    rows.transact = working
    expect((await limiter.peek('ada')).remaining).toBe(9)
  })

  it.each<[string, unknown, string]>([
    [
      'of an error with others inside',
      new AggregateError([new Error('connect ECONNREFUSED ::1:1.')]),
      'connect ECONNREFUSED ::1:1',
    ],
    [
      'of an ORM, without the statement and its values',
      new Error('Failed query: INSERT …\nparams: ["ada"]', { cause: new Error('relation "limits" does not exist') }),
      'relation "limits" does not exist',
    ],
    ['of an error with a cause', new Error('lost during COMMIT', { cause: new Error('closed') }), 'lost during COMMIT'],
  ])('says the reason %s', async (_, error, reason) => {
    const transact = async (): Promise<never> => Promise.reject(error as Error)
    const failure = on({ transact }).consume('ada')
    await expect(failure).rejects.toThrow(`The database failed: ${reason} (sluice/`)
  })

  it.each([
    ['returns', (): unknown => undefined],
    ['resolves with', async (): Promise<unknown> => undefined],
  ])('says what is missing when transact %s nothing', async (_, transact) => {
    await expect(on({ transact } as never).consume('ada')).rejects.toThrow(
      'transact: expected the result of `change`, got undefined',
    )
  })

  it('rejects after close, and calls close of the database once', async () => {
    const close = vi.fn()
    const rows = Object.assign(new Rows(), { close })
    const store = rowStore(rows)
    const limiter = createLimiter({ keyer: perKey, limits: gcra({ quota: 1, window: '1s' }), store })
    await limiter.consume('ada')
    await store.close()
    await store.close()
    expect(close).toHaveBeenCalledTimes(1)
    await expect(limiter.consume('ada')).rejects.toMatchObject({ code: 'STORE_CLOSED' })
  })

  it('says what is wrong when a database that says `sync` returns a promise', () => {
    const store = rowStore({ sync: true, transact: (async () => []) as never })
    const limiter = createLimiter({ keyer: perKey, limits: gcra({ quota: 1, window: '1s' }), store })
    expect(() => limiter.consume('ada')).toThrow(/transact returned a promise/)
  })
})

describe('transactions', () => {
  it('share what arrives together, at most 256 operations at a time', async () => {
    const rows = new Rows()
    const limiter = on(rows, gcra({ quota: 10_000, window: '1h' }))
    await Promise.all(Array.from({ length: 1000 }, (_, i) => limiter.consume(`key ${i}`)))
    expect(Math.max(...rows.widths)).toBe(256)
    expect(rows.widths.length).toBe(4)
    expect(rows.most).toBe(4)
  })

  it('have at most `mostKeys` keys, except for a single operation with more', async () => {
    const rows = Object.assign(new Rows(), { mostKeys: 3 })
    const store = rowStore(rows)
    const limiters = ['a', 'b', 'c', 'd'].map((name) =>
      createLimiter<string>({ name, keyer: perKey, limits: gcra({ quota: 10, window: '1h' }), store }),
    )
    const [a, b] = limiters
    const operations = [...Array.from({ length: 10 }, (_, i) => a!.consume(`key ${i % 5}`)), stack(a!, b!).consume('x')]
    await Promise.all(operations)
    expect(Math.max(...rows.widths)).toBe(3)
    // The keys 0 to 2, twice each, then 3 and 4, and then the stack.
    expect(rows.widths).toEqual([3, 2, 2])
    await Promise.all([a!.consume('z'), stack(a!, b!, limiters[2]!, limiters[3]!).consume('y'), a!.consume('z')])
    expect(rows.widths.slice(3).toSorted((a, b) => a - b)).toEqual([1, 4])
  })

  it('never run at one time for one key, and admit exactly the quota', async () => {
    const rows = new Rows()
    const limiter = on(rows, gcra({ quota: 100, window: '1h' }))
    const decisions = await Promise.all(Array.from({ length: 700 }, () => limiter.consume('ada')))
    expect(rows.most).toBe(1)
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(100)
  })

  it('keep the order of the operations on a key', async () => {
    const limiter = on(new Rows(), gcra({ quota: 100, window: '1h' }))
    const property = fc.asyncProperty(fc.array(fc.nat({ max: 3 }), { maxLength: 60 }), async (keys) => {
      const seen: [number, number][] = []
      await Promise.all(
        keys.map(async (key, i) => {
          await limiter.peek(`key ${key}`)
          seen.push([key, i])
        }),
      )
      for (const key of new Set(keys)) {
        const order = seen.filter(([each]) => each === key).map(([, i]) => i)
        expect(order).toEqual(order.toSorted((a, b) => a - b))
      }
    })
    await fc.assert(property, { numRuns: 50 })
  })

  it('keep the order of operations that have one of several keys in common', async () => {
    const rows = new Rows()
    const store = rowStore(rows)
    const [first, second] = ['first', 'second'].map((name) =>
      createLimiter<string>({ name, keyer: perKey, limits: gcra({ quota: 1, window: '1h' }), store }),
    )
    const running = first!.peek('ada')
    await new Promise(setImmediate)
    // The second one waits for the key of the first one, and the third one for the other key of the second one.
    const waiting = [stack(first!, second!).consume('ada'), second!.consume('ada')]
    const [both, later] = await Promise.all(waiting)
    await running
    expect([both!.allowed, later!.allowed]).toEqual([true, false])
  })

  it('of peeks are read-only, and write nothing', async () => {
    const rows = new Rows()
    const limiter = on(rows)
    await limiter.peek('ada')
    expect([rows.readOnly, rows.rows.size]).toEqual([[true], 0])
    await limiter.consume('ada')
    expect([rows.readOnly, rows.rows.size]).toEqual([[true, false], 1])
  })

  it('of a key that is locked out write nothing', async () => {
    const rows = new Rows()
    const limiter = on(rows)
    await limiter.block('ada', '1m')
    const row = rows.rows.get(RECORD)
    expect((await limiter.consume('ada')).allowed).toBe(false)
    expect(rows.rows.get(RECORD)).toBe(row)
  })

  it('have keys that are sorted, well-formed and without NUL', async () => {
    const rows = new Rows()
    const seen: (readonly string[])[] = []
    const transact = rows.transact.bind(rows)
    rows.transact = (keys, ...rest) => {
      seen.push(keys)
      return transact(keys, ...rest)
    }
    const limiter = on(rows)
    await Promise.all(['b', '\u0000', '\ud800', 'a'].map((key) => limiter.consume(key)))
    const keys = seen.flat()
    expect(keys).toHaveLength(4)
    expect(seen[0]).toEqual(seen[0]!.toSorted())
    // eslint-disable-next-line no-control-regex
    for (const key of keys) expect(key).toMatch(/^[^\u0000]*$/)
    for (const key of keys) expect((key as string & { isWellFormed(): boolean }).isWellFormed()).toBe(true)
  })
})

describe('a row', () => {
  it('is deleted by a reset when nothing in it counts', async () => {
    const clock = virtualClock()
    const rows = new Rows(clock)
    const limiter = on(rows, gcra({ quota: 10, window: '1s' }))
    await limiter.refund(await limiter.consume('ada'))
    // A clock may step back by a second.
    expect(rows.rows.size).toBe(1)
    clock.advance(2000)
    await limiter.reset('ada')
    expect(rows.rows.size).toBe(0)
  })

  it('may be bytes of another context, as those of Node are in Jest with jsdom', async () => {
    const rows = new Rows()
    const foreign = (bytes?: Uint8Array): Uint8Array | undefined =>
      bytes && (runInNewContext('Uint8Array.from(bytes)', { bytes }) as Uint8Array)
    const limiter = on({
      transact: (keys, change, options) =>
        rows.transact(keys, (stored, now) => change(stored.map(foreign), now), options),
    })
    expect((await limiter.consume('ada')).remaining).toBe(9)
    expect((await limiter.consume('ada')).remaining).toBe(8)
  })

  it('may be deleted a second after everything in it has ended', async () => {
    const clock = virtualClock()
    const rows = new Rows(clock)
    const ends: number[] = []
    const transact = rows.transact.bind(rows)
    rows.transact = (keys, change, options) =>
      transact(
        keys,
        (stored, now) => {
          const changes = change(stored, now)
          ends.push(...changes.writes.map(({ expiresAt }) => expiresAt))
          return changes
        },
        options,
      )
    await on(rows, gcra({ quota: 10, window: '10s' })).consume('ada')
    await on(rows, fixedWindow({ quota: 1, window: '1m', block: '1h' }), 'blocks').consume('ada', { cost: 2 })
    expect(ends).toEqual([clock.now() + 2000, clock.now() + 3_601_000])
  })

  it('keeps the limits that a request does not name', async () => {
    const rows = new Rows()
    const [first, second] = ['first', 'second'].map((name) => gcra({ quota: 3, window: '1h', name }))
    await on(rows, first).consume('ada')
    await on(rows, second).consume('ada')
    const again = on(rows, first)
    expect((await again.peek('ada', { cost: 0 })).limits[0]!.remaining).toBe(2)
  })

  it('takes about 160 bytes for one limit, and can be read by people', async () => {
    const clock = virtualClock()
    const rows = new Rows(clock)
    await on(rows).consume('ada')
    expect(rows.rows.get(RECORD)!.length).toBeLessThan(170)
    expect(JSON.parse(textOf(rows))).toMatchObject({
      v: 1,
      limits: { '10-per-1h': { until: (clock.now() + 360_000) * 1000, by: expect.stringMatching(/^gcra,/) } },
    })
  })

  it('has the limits of any name, and what a lock-out and a reset leave', async () => {
    const clock = virtualClock()
    const rows = new Rows(clock)
    const names = ['__proto__', 'constructor', '1', '"\\']
    const limits = names.map((name) => fixedWindow({ name, quota: 2, window: '1h' }))
    const store = (): Store => rowStore(rows)
    const limiter = (): Limiter<string> => createLimiter({ name: 'api', keyer: perKey, limits, store: store() })
    await limiter().consume('ada')
    await limiter().pause('ada', '1m')
    expect(Object.keys(JSON.parse(textOf(rows)).limits).toSorted()).toEqual(names.toSorted())
    expect((await limiter().consume('ada')).limits.map(({ retryAfter }) => retryAfter)).toEqual(names.map(() => 60_000))
    clock.advance(60_000)
    expect((await limiter().consume('ada')).limits.map(({ remaining }) => remaining)).toEqual(names.map(() => 0))
  })

  it('keeps every number', () => {
    const numbers = [-0, 0, Infinity, -Infinity, 2 ** 53, 2 ** 53 + 2, -(2 ** 53), 5e-324, Number.MAX_VALUE, 0.1]
    const property = fc.property(
      fc.array(fc.oneof(fc.constantFrom(...numbers), fc.double({ noNaN: true }))),
      (cells) => {
        const row = new Row()
        const used = cells.slice(0, 2)
        row.until = 2e15
        row.writer = { signature: 'own,1', cells: used.length } as CompiledLimit
        row.cells.set(used)
        const { row: bytes } = encodeRecord(new Map([['own', encodeRow(row)]]), 1e15)
        expect(decodeStored(decodeRecord(bytes).get('own')!).cells).toEqual(used)
      },
    )
    fc.assert(property, { numRuns: 200 })
  })

  it('has a lock-out, and no usage, of an algorithm that is not known here', async () => {
    const clock = virtualClock()
    const rows = new Rows(clock)
    const limiter = (quota: number): Limiter<string> => on(rows, fixedWindow({ name: 'hour', quota, window: '1h' }))
    await limiter(5).pause('ada', '1m')
    const [now, until] = [0, 3_600_000].map((ms) => (clock.now() + ms) * 1000) as [number, number]
    const usage = { until, by: 'mine,1,5', cells: [5], changedAt: now, changeUntil: until, cut: 5 }
    const lockOut = decodeRecord(rows.rows.get(RECORD)).get('hour')
    rows.rows.set(RECORD, encodeRecord(new Map([['hour', { ...lockOut, ...usage }]]), now).row!)
    expect(await limiter(5).consume('ada')).toMatchObject({ allowed: false, retryAfter: 60_000 })
    clock.advance(60_000)
    expect((await limiter(5).consume('ada')).remaining).toBe(4)
    expect((await limiter(10).consume('ada')).remaining).toBe(8)
  })

  it('of a log of 100,000 entries is stored', async () => {
    const clock = virtualClock()
    const rows = new Rows(clock)
    const limiter = on(rows, slidingWindowLog({ quota: 100_000, window: '1d' }))
    await limiter.consume('ada')
    const [name, section] = [...decodeRecord(rows.rows.get(RECORD))][0]!
    const [time, cost] = section.entries as [number, number]
    const entries = Array.from({ length: 99_999 }, (_, i) => [time - 99_998 + i, cost]).flat()
    const cells = [99_999, time]
    rows.rows.set(RECORD, encodeRecord(new Map([[name, { ...section, cells, entries }]]), clock.now() * 1000).row!)
    clock.advance(1000)
    expect(await limiter.consume('ada')).toMatchObject({ allowed: true, remaining: 0 })
    expect(rows.rows.get(RECORD)!.length).toBeLessThan(MOST_BYTES / 2)
  })

  it('that is too large fails its own operation, and not those that share the transaction', async () => {
    const clock = virtualClock()
    const rows = new Rows(clock)
    const log = slidingWindowLog({ quota: 100_000, window: '1d', name: 'log' })
    const limiter = on(rows, log)
    await limiter.consume('ada')
    const sections = decodeRecord(rows.rows.get(RECORD))
    const room = MOST_BYTES - rows.rows.get(RECORD)!.length
    // Another section fills the record, but for less than one entry.
    const filler = { until: (clock.now() + 3_600_000) * 1000, by: '' }
    const rest = `,"filler":${JSON.stringify(filler)}`.length
    sections.set('filler', { ...filler, by: 'x'.repeat(room - rest - 10) })
    rows.rows.set(RECORD, encodeRecord(sections, clock.now() * 1000).row!)
    clock.advance(1)
    const [large, other] = await Promise.allSettled([limiter.consume('ada'), limiter.consume('bob')])
    expect(large).toMatchObject({ status: 'rejected', reason: { code: 'STORE_REJECTED' } })
    expect(other).toMatchObject({ status: 'fulfilled', value: { allowed: true } })
    expect(rows.rows.get(RECORD)!.length).toBeLessThanOrEqual(MOST_BYTES)
    clock.advance(3_602_000)
    expect((await limiter.consume('ada')).allowed).toBe(true)
  })
})

describe('a damaged row', () => {
  it('fails its operation alone when another version of the format wrote it, or only a section of another limit is damaged', async () => {
    const database = new Rows()
    const limiter = on(database, fixedWindow({ quota: 5, window: '1d' }))
    for (const key of ['old', 'bad']) await limiter.consume(key)
    const [old, bad] = [...database.rows.keys()]
    const text = Buffer.from(database.rows.get(old!)!).toString()
    // The hash does not cover the version.
    database.rows.set(old!, Buffer.from(text.replace('"v":1', '"v":2')))
    database.rows.set(bad!, sealed({ ...JSON.parse(text).limits, other: { until: 'soon' } }))
    const all = await Promise.allSettled(['old', 'good', 'bad', 'better'].map(async (each) => limiter.consume(each)))
    const damaged = { status: 'rejected', reason: { code: 'DAMAGED_ROW' } }
    expect(all).toMatchObject([damaged, { status: 'fulfilled' }, damaged, { status: 'fulfilled' }])
    expect(Buffer.from(database.rows.get(old!)!).toString()).toContain('"v":2')
  })

  const clock = virtualClock()
  const written = async (): Promise<Rows> => {
    const rows = new Rows(clock)
    const limits = [slidingWindowLog({ quota: 5, window: '1h', block: '2h' }), gcra({ quota: 4, window: '1h' })]
    const limiter = createLimiter({ name: 'api', keyer: perKey, limits, store: rowStore(rows) })
    for (let i = 0; i < 5; i++) {
      clock.advance(1)
      await limiter.consume('ada')
    }
    return rows
  }

  it('rejects with DAMAGED_ROW whichever byte is changed, and is deleted by reset', async () => {
    const rows = await written()
    const good = rows.rows.get(RECORD)!
    const limiter = on(rows)
    for (let i = 0; i < good.length; i++) {
      const bad = good.slice()
      bad[i]! ^= 1 << (i % 8)
      rows.rows.set(RECORD, bad)
      await expect(limiter.consume('ada')).rejects.toMatchObject({ code: 'DAMAGED_ROW' })
    }
    await limiter.reset('ada')
    expect(rows.rows.size).toBe(0)
    expect((await limiter.consume('ada')).allowed).toBe(true)
  })

  it('rejects a row of another program, even if its hash is right', async () => {
    const { limits } = JSON.parse(textOf(await written()))
    const rows = new Rows(clock)
    const limiter = on(rows, slidingWindowLog({ quota: 5, window: '1h', block: '2h' }))
    const [name] = Object.keys(limits)
    const part = fc.constantFrom('until', 'by', 'cells', 'entries', 'lockedUntil', 'denials', 'cut')
    const value = fc.oneof(fc.jsonValue(), fc.constantFrom('NaN', [null], ['NaN'], [1, 2, 1, 2], [1, 0], [1], {}))
    const section = fc.oneof(
      fc.jsonValue(),
      fc.tuple(part, value).map(([key, each]) => Object.assign(structuredClone(limits[name!]), { [key]: each })),
    )
    const property = fc.asyncProperty(section, async (bad) => {
      rows.rows.set(RECORD, sealed({ [name!]: bad }))
      // It is read as some row, or refused: nothing else is thrown.
      try {
        await limiter.consume('ada')
      } catch (error) {
        expect(error).toMatchObject({ code: 'DAMAGED_ROW' })
      }
    })
    await fc.assert(property, { numRuns: 400 })
  })

  it.each([
    ['until', null],
    ['by', 1],
    ['cells', {}],
    ['cells', ['NaN']],
    ['cells', ['x']],
    ['cells', [null]],
    ['cells', []],
    ['entries', [1]],
    ['entries', [2, 1, 1, 1]],
    ['entries', [1, 0]],
    ['entries', [1, '1']],
    ['lockedUntil', '1'],
  ])('rejects if %s is %j', async (part, value) => {
    const rows = await written()
    const limiter = on(rows, slidingWindowLog({ quota: 5, window: '1h', block: '2h' }))
    const { limits } = JSON.parse(textOf(rows))
    const name = Object.keys(limits).find((each) => limits[each].entries !== undefined)
    expect(name).toBe('5-per-1h')
    rows.rows.set(RECORD, sealed({ [name!]: { ...limits[name!], [part]: value } }))
    await expect(limiter.consume('ada')).rejects.toMatchObject({ code: 'DAMAGED_ROW' })
  })
})
