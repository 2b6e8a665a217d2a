import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createLimiter, fixedWindow, type Limiter, stack, type Store } from '../../../src/index.ts'
import { BusyRows, type Operation, type RowDatabase, rowStore, type TransactionInfo } from '../../../src/extend.ts'
import { until } from '../../support/http.ts'

interface Transaction {
  readonly keys: readonly string[]
  readonly within: number | undefined
}

/** Milliseconds. */
const PATIENCE = 40

/**
 * Rows in a `Map`. Transactions on rows that are locked wait for `PATIENCE`, and fail then. `tells`: whether the error names the
 * locked rows.
 */
class LockableRows implements RowDatabase {
  readonly locked = new Set<string>()
  readonly transactions: Transaction[] = []
  /** The most transactions that waited for locks at a time. */
  mostWaiting = 0
  #waiting = 0
  readonly #rows = new Map<string, Uint8Array>()

  lock(...keys: readonly string[]): void {
    for (const key of keys) this.locked.add(recordOf(key))
  }

  readonly transact: RowDatabase['transact'] = async (keys, change, { within }: TransactionInfo) => {
    this.transactions.push({ keys, within })
    const wanted = (): string[] => keys.filter((key) => this.locked.has(key))
    this.mostWaiting = Math.max(this.mostWaiting, wanted().length > 0 ? ++this.#waiting : 0)
    const isBlocked = wanted().length > 0
    for (const end = performance.now() + Math.min(PATIENCE, within ?? Infinity); wanted().length > 0;) {
      if (performance.now() > end) {
        this.#waiting--
        throw new BusyRows(wanted())
      }
      await pause(1)
    }
    if (isBlocked) this.#waiting--
    const { writes, result } = change(
      keys.map((key) => this.#rows.get(key)),
      Date.now() * 1000,
    )
    await new Promise(setImmediate)
    for (const { key, row } of writes) if (row !== undefined) this.#rows.set(key, row.slice())
    return result
  }
}

const recordOf = (key: string, limiter = 'api'): string => JSON.stringify([limiter, key])

/** The store, with `within` in each operation, as a guard sends it. */
function waitingFor(ms: number, store: Store): Store {
  return { ...store, run: (operation: Operation, reply) => store.run({ ...operation, within: ms }, reply) } as Store
}

function on(store: Store, name = 'api', keyer: (key: string) => string = (key) => key): Limiter<string> {
  return createLimiter<string>({ name, keyer, limits: fixedWindow({ quota: 1000, window: '1d' }), store, shared: true })
}

type Outcome = PromiseSettledResult<{ readonly allowed: boolean }>
const codesOf = (outcomes: readonly Outcome[]): unknown[] =>
  outcomes.map((each) => (each.status === 'rejected' ? (each.reason as { code: string }).code : 'ok'))

describe('an operation on a row that is locked', () => {
  it('is tried again alone, and fails alone', async () => {
    const rows = new LockableRows()
    const limiter = on(rowStore(rows))
    rows.lock('b')
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((key) => limiter.consume(key)))
    expect(codesOf(outcomes)).toEqual(['ok', 'STORE_BUSY', 'ok'])
    expect(rows.transactions.map(({ keys }) => keys.length)).toEqual([3, 2, 1])
  })

  it('succeeds if the lock ends in time', async () => {
    const rows = new LockableRows()
    const limiter = on(rowStore(rows))
    rows.lock('b')
    const decisions = Promise.all(['a', 'b', 'c'].map((key) => limiter.consume(key)))
    // The first transaction has failed.
    await until(() => rows.transactions.length > 1)
    rows.locked.clear()
    expect((await decisions).map(({ remaining }) => remaining)).toEqual([999, 999, 999])
  })

  it('has transactions of its own for a second, one at a time, and delays no other', async () => {
    const rows = new LockableRows()
    const limiter = on(rowStore(rows))
    rows.lock('b', 'd')
    await Promise.allSettled(['a', 'b', 'c', 'd'].map((key) => limiter.consume(key)))
    rows.transactions.length = 0
    const locked = Promise.allSettled(['b', 'd'].map((key) => limiter.consume(key)))
    for (let i = 0; i < 5; i++) await Promise.all(['a', 'c'].map((key) => limiter.consume(key)))
    expect(codesOf(await locked)).toEqual(['STORE_BUSY', 'STORE_BUSY'])
    const widths = rows.transactions.filter(({ keys }) => keys.some((key) => rows.locked.has(key)))
    expect(widths.map(({ keys }) => keys.length)).toEqual([1, 1])
    expect(rows.mostWaiting).toBe(1)
    rows.locked.clear()
    await pause(1010)
    rows.transactions.length = 0
    await Promise.all(['a', 'b', 'c', 'd'].map((key) => limiter.consume(key)))
    expect(rows.transactions.map(({ keys }) => keys.length)).toEqual([4])
  })

  it('gets the same error as all that wait for this row', async () => {
    const rows = new LockableRows()
    const limiter = on(rowStore(rows))
    rows.lock('b')
    const first = Promise.allSettled([limiter.consume('b'), limiter.consume('b')])
    await pause(5)
    const later = Promise.allSettled([limiter.consume('b'), limiter.consume('a')])
    const [[one, two], [three, four]] = await Promise.all([first, later])
    const errors = [one, two, three].map((each) => (each as PromiseRejectedResult).reason as unknown)
    expect(new Set(errors).size).toBe(1)
    expect(errors[0]).toMatchObject({ code: 'STORE_BUSY', keys: [recordOf('b')] })
    expect(four!.status).toBe('fulfilled')
    expect(rows.transactions.filter(({ keys }) => keys.includes(recordOf('b')))).toHaveLength(1)
  })

  it('keeps the rows of its other keys only for a short time', async () => {
    const rows = new LockableRows()
    const store = rowStore(rows)
    const [user, site] = [on(store), on(store, 'site', () => 'all')]
    rows.lock('b')
    await Promise.allSettled([user.consume('b'), user.consume('a')])
    rows.transactions.length = 0
    const both = stack(user, site)
    const outcomes = await Promise.allSettled(['b', 'a', 'b', 'c'].map((key) => both.consume(key)))
    expect(codesOf(outcomes)).toEqual(['STORE_BUSY', 'ok', 'STORE_BUSY', 'ok'])
    for (const { keys, within } of rows.transactions) expect(within).toBe(keys.includes(recordOf('b')) ? 10 : undefined)
  })

  it('is not sent if it is given up while it waits for another one', async () => {
    const rows = new LockableRows()
    const store = rowStore(rows)
    const giveUp: unknown[] = []
    const run: Store['run'] = (operation, reply) => void giveUp.push(store.run(operation, reply))
    const limiter = on({ ...store, run } as Store)
    rows.lock('b')
    const outcomes = Promise.allSettled([limiter.consume('b'), pause(1).then(() => limiter.consume('b'))])
    await until(() => giveUp.length === 2)
    ;(giveUp[1] as () => void)()
    rows.locked.clear()
    expect(codesOf(await outcomes)).toEqual(['ok', 'STORE_FAILED'])
    expect(rows.transactions).toHaveLength(1)
  })

  it('is not repeated if the transaction does not know which rows are locked', async () => {
    const rows = new LockableRows()
    const store = rowStore({
      async transact() {
        rows.transactions.push({ keys: [], within: undefined })
        throw new BusyRows([])
      },
    })
    const limiter = on(store)
    const outcomes = await Promise.allSettled(['a', 'b'].map((key) => limiter.consume(key)))
    expect(codesOf(outcomes)).toEqual(['STORE_BUSY', 'STORE_BUSY'])
    expect(rows.transactions).toHaveLength(1)
  })

  it('is one of at most 256 that are kept apart', async () => {
    const rows = new LockableRows()
    const limiter = on(rowStore({ transact: rows.transact, inFlight: 2 }))
    const keys = Array.from({ length: 300 }, (_, i) => `k${i}`)
    rows.lock(...keys)
    const outcomes = Promise.allSettled(keys.map((key) => limiter.consume(key)))
    // The first two transactions have failed.
    await until(() => rows.transactions.length > 3)
    rows.locked.clear()
    await outcomes
    rows.transactions.length = 0
    await Promise.all(keys.map((key) => limiter.consume(key)))
    const single = rows.transactions.filter(({ keys: own }) => own.length === 1)
    expect(single.length).toBeLessThanOrEqual(256)
    expect(single.length).toBeGreaterThan(0)
  })
})

describe('a transaction', () => {
  it('may take as long as somebody waits for it', async () => {
    const rows = new LockableRows()
    const store = rowStore(rows)
    const [short, long] = [on(waitingFor(80, store)), on(waitingFor(300, store))]
    await short.consume('a')
    await Promise.all([short.consume('a'), long.consume('b')])
    await Promise.all([on(store).consume('a'), long.consume('b')])
    expect(rows.transactions[0]!.within).toBeGreaterThan(70)
    expect(rows.transactions[0]!.within).toBeLessThanOrEqual(80)
    expect(rows.transactions[1]!.within).toBeGreaterThan(250)
    expect(rows.transactions[2]!.within).toBe(undefined)
  })

  it('has only the time that is left', async () => {
    const rows = new LockableRows()
    const limiter = on(waitingFor(200, rowStore(rows)))
    rows.lock('b')
    await Promise.allSettled([limiter.consume('a'), limiter.consume('b')])
    expect(rows.transactions.map(({ keys }) => keys.length)).toEqual([2, 1, 1])
    expect(rows.transactions[0]!.within).toBeGreaterThan(190)
    for (const { within } of rows.transactions.slice(1)) expect(within).toBeLessThanOrEqual(180)
  })

  it('fails all its operations with one error', async () => {
    const limiter = on(rowStore({ transact: () => Promise.reject(new Error('away')) }))
    const outcomes = await Promise.allSettled(['a', 'b'].map((key) => limiter.consume(key)))
    const errors = outcomes.map((each) => (each as PromiseRejectedResult).reason as unknown)
    expect(errors[0]).toMatchObject({ code: 'STORE_FAILED' })
    expect(errors[1]).toBe(errors[0])
  })

  it.each([1, 2, 7])('is one of at most %i at a time if the database says so', async (inFlight) => {
    const rows = new LockableRows()
    rows.lock(...Array.from({ length: 10 }, (_, i) => `k${i}`))
    const limiter = on(rowStore({ transact: rows.transact, mostKeys: 1, inFlight }))
    const outcomes = Promise.allSettled(Array.from({ length: 10 }, (_, i) => limiter.consume(`k${i}`)))
    await pause(10)
    rows.locked.clear()
    await outcomes
    expect(rows.mostWaiting).toBe(inFlight)
  })
})
