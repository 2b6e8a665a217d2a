import { describe, expect, it } from 'vitest'
import { concurrent, createLimiter, guard, type Limiter, type Store } from '../../src/index.ts'
import { type RowDatabase, rowStore } from '../../src/extend.ts'
import { type VirtualClock, virtualClock } from '../../src/testing/virtual-clock.ts'
import { readRecordKey } from '../../src/stores/rows.ts'
import { settled } from '../support/held-store.ts'

/** A database of one process, which answers after a millisecond. It shares its rows with other processes. Rows that `isLost` names are not kept. */
function databaseOf(rows: Map<string, Uint8Array>, clock: VirtualClock, isLost: (key: string) => boolean): RowDatabase {
  return {
    transact: (keys, change) =>
      new Promise((resolve, reject) => {
        clock.after(1, () => {
          try {
            const { writes, result } = change(
              keys.map((key) => rows.get(key)),
              Math.round(clock.now() * 1000),
            )
            for (const { key, row } of writes)
              if (row === undefined) rows.delete(key)
              else if (!isLost(key)) rows.set(key, row)
            clock.after(1, () => resolve(result))
          } catch (error) {
            reject(error as Error)
          }
        })
      }),
  }
}

interface World {
  /** How many clients each process has. Each sends its next request as soon as its last one has ended. */
  readonly clients: readonly number[]
  readonly quota?: number
  /** How long a request runs, in milliseconds. */
  readonly work?: number
  readonly isLost?: (key: string) => boolean
  readonly wrap?: (store: Store) => Store
}

/** Returns a limiter of requests that run at the same time. */
function jobs(store: Store, quota = 1): Limiter<string> {
  return createLimiter<string>({ keyer: (key) => key, limits: concurrent({ quota, name: 'running' }), store })
}

async function pass(clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed++) {
    clock.advance(1)
    await settled()
  }
}

/** Milliseconds within which processes notice each other. */
const NOTICED = 300

/** Runs clients in several processes. Returns the longest wait in milliseconds, at first and later, and how many requests have run. */
async function run({
  clients,
  quota = 1,
  work = 20,
  isLost = () => false,
  wrap = (store) => store,
}: World): Promise<[first: number, later: number, served: number]> {
  const clock = virtualClock()
  const rows = new Map<string, Uint8Array>()
  const longest = { first: 0, later: 0 }
  const started = clock.now()
  let served = 0
  let ends = false
  const client = async (limiter: Limiter<string>): Promise<void> => {
    while (!ends) {
      const began = clock.now()
      const decision = await limiter.wait('ada')
      const when = began - started < NOTICED ? 'first' : 'later'
      longest[when] = Math.max(longest[when], clock.now() - began)
      served++
      await new Promise<void>((resolve) => void clock.after(work, resolve))
      await limiter.release(decision)
    }
  }
  const done = clients.flatMap((count) => {
    const limiter = jobs(wrap(rowStore(databaseOf(rows, clock, isLost), { clock })), quota)
    return Array.from({ length: count }, () => client(limiter))
  })
  await pass(clock, 100 * work)
  ends = true
  while ((await Promise.race([Promise.all(done), settled()])) === undefined) await pass(clock, 50)
  return [longest.first, longest.later, served]
}

const isMark = (key: string): boolean => readRecordKey(key)!.limiter === '·waiting'

describe('the longest wait for a slot', () => {
  it.each([[[4, 1]], [[1, 4]], [[4, 4]], [[4, 1, 1, 1, 1]], [[16, 1]]])(
    'is at most three times that of one process, with %j clients',
    async (clients) => {
      const all = clients.reduce((sum, count) => sum + count)
      // Long work takes ten times as much time here.
      for (const work of all === 5 ? [20, 200] : [20]) {
        const [, fair, most] = await run({ clients: [all], work })
        const [first, later, served] = await run({ clients, work })
        expect(later / fair).toBeLessThanOrEqual(3)
        expect(first).toBeLessThanOrEqual(3 * fair + NOTICED)
        // The order costs little: the slot is seldom free.
        expect(served / most).toBeGreaterThan(0.85)
      }
    },
    60_000,
  )

  it('is as short through guard', async () => {
    // The deadline is of real time, which this world does not need.
    const wrap = (store: Store): Store => guard(store, { deadline: '1m' })
    const [, fair] = await run({ clients: [5], wrap })
    const [, longest] = await run({ clients: [4, 1], wrap })
    expect(longest / fair).toBeLessThanOrEqual(3)
  })
})

describe('marks', () => {
  it('are written only while requests wait', async () => {
    const keys: string[] = []
    const isLost = (key: string): boolean => (keys.push(key), false)
    await run({ clients: [2], quota: 2, isLost })
    expect(keys.filter(isMark)).toEqual([])
    await run({ clients: [2], quota: 1, isLost })
    expect(keys.some(isMark)).toBe(true)
  })

  it.each([
    ['whose client has gone delay nobody', false, 0, 60],
    ['of a process that has died delay others for less than a second', true, 100, 1000],
  ])('of a request %s', async (_, dies, least, most) => {
    const clock = virtualClock()
    const rows = new Map<string, Uint8Array>()
    let isDead = false
    const limiterOf = (isOther: boolean): Limiter<string> => {
      const database = databaseOf(rows, clock, () => false)
      const transact: RowDatabase['transact'] = (...given) =>
        isDead && isOther ? new Promise(() => undefined) : database.transact(...given)
      return jobs(rowStore({ transact }, { clock }))
    }
    const [one, other] = [limiterOf(false), limiterOf(true)]
    const taken = one.wait('ada')
    await pass(clock, 10)
    const gone = new AbortController()
    void other.wait('ada', { signal: gone.signal }).catch(() => undefined)
    await pass(clock, 3000)
    let served = 0
    void one.wait('ada').then(() => (served = clock.now()))
    await pass(clock, 100)
    if (dies) isDead = true
    else gone.abort()
    await pass(clock, 20)
    const released = clock.now()
    void one.release(await taken)
    await pass(clock, 1500)
    expect(served - released).toBeGreaterThan(least)
    expect(served - released).toBeLessThanOrEqual(most)
  })
})
