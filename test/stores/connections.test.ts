// Which connections of a pool a store keeps. The pool is not real; test/stores/sql/connections.test.ts has those of PostgreSQL and MySQL.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { type Connections, connectionsOf, type SharedPool } from '../../src/stores/connections.ts'
import { warningsOfEachTest } from '../support/guarded.ts'

beforeEach(
  () =>
    void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] }),
)
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const warnings = warningsOfEachTest()

/** A pool whose connections are numbers, and what a store does with them. */
class FakePool implements SharedPool<number> {
  isEnding = false
  taken = 0
  /** What was put back, and whether it was broken. */
  readonly back: [connection: number, isBroken: boolean][] = []
  /** The `onLost` of each connection that is kept. */
  readonly kept = new Map<number, () => void>()

  readonly size: number
  readonly take: (onFull: () => void) => Promise<number>

  constructor(size: number, take?: (onFull: () => void) => Promise<number>) {
    this.size = size
    this.take = take ?? (async () => ++this.taken)
  }

  async keep(connection: number, onLost: () => void): Promise<void> {
    this.kept.set(connection, onLost)
  }

  async leave(connection: number): Promise<void> {
    this.kept.delete(connection)
  }

  putBack(connection: number, isBroken: boolean): void {
    this.back.push([connection, isBroken])
  }

  connections(count?: number): Connections<number> {
    return connectionsOf(this, () => this, count)
  }
}

const notOver = (): boolean => false

function takeAll(connections: Connections<number>, count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, () => connections.take(notOver)))
}

it.each([
  [4, 9, 2],
  [6, 1, 1],
  [20, 3, 3],
  [20, undefined, 2],
  [3, 2, undefined],
  [10, 0, undefined],
])('a pool of %i keeps at most half open, for the option %o: %o', (size, count, expected) => {
  expect(new FakePool(size).connections(count).most).toBe(expected)
})

it('a connection that is kept is used again, and goes back to the pool as it was after five idle seconds', async () => {
  const pool = new FakePool(10)
  const connections = pool.connections()
  for (const each of await takeAll(connections, 2)) connections.give(each, false)
  expect([...pool.kept.keys()]).toEqual([1, 2])
  await vi.advanceTimersByTimeAsync(3000)
  const used = await connections.take(notOver)
  connections.give(used, false)
  expect([pool.taken, pool.back]).toEqual([2, []])
  await vi.advanceTimersByTimeAsync(3000)
  expect(pool.back).toEqual([[3 - used, false]])
  await vi.advanceTimersByTimeAsync(3000)
  expect(pool.back).toEqual([
    [3 - used, false],
    [used, false],
  ])
  expect([...pool.kept.keys()]).toEqual([])
})

it('connections go back at once when the pool is ending', async () => {
  const pool = new FakePool(10)
  const connections = pool.connections()
  const [idle, used] = await takeAll(connections, 2)
  connections.give(idle!, false)
  pool.isEnding = true
  await vi.advanceTimersByTimeAsync(300)
  expect(pool.back).toEqual([[idle, false]])
  connections.give(used!, false)
  await vi.advanceTimersByTimeAsync(1)
  expect(pool.back).toEqual([
    [idle, false],
    [used, false],
  ])
})

it('a connection that is lost while it is idle is not used again', async () => {
  const pool = new FakePool(10)
  const connections = pool.connections()
  const lost = await connections.take(notOver)
  connections.give(lost, false)
  pool.kept.get(lost)!()
  expect(await connections.take(notOver)).not.toBe(lost)
  expect(pool.back).toEqual([[lost, true]])
})

it('a pool that is full for a short time is nothing to warn about', async () => {
  const pool = new FakePool(2, async (onFull) => (onFull(), 1))
  await pool.connections(0).take(notOver)
  await vi.advanceTimersByTimeAsync(100)
  expect(warnings.codes).toEqual([])
})

it.each([
  [6, 'make the pool larger'],
  [2, 'at least 4 connections'],
])('a pool of %i that is full warns once, and says: %s', async (size, remedy) => {
  const pool = new FakePool(size, (onFull) => {
    onFull()
    return new Promise((resolve) => void setTimeout(() => resolve(1), 100))
  })
  const connections = pool.connections(0)
  for (let i = 0; i < 2; i++) {
    const taken = connections.take(notOver)
    await vi.advanceTimersByTimeAsync(100)
    await taken
  }
  expect(warnings.messages).toEqual([expect.stringContaining(remedy)])
})

it('a transaction waits for a connection of the store if the pool gets no other, and fails if that one is lost', async () => {
  let left = 1
  const pool = new FakePool(4, async () => {
    if (left-- > 0) return 1
    throw new Error('too many connections')
  })
  const connections = pool.connections()
  const first = await connections.take(notOver)
  const second = connections.take(notOver)
  await vi.advanceTimersByTimeAsync(10)
  connections.give(first, false)
  expect(await second).toBe(first)
  const third = expect(connections.take(notOver)).rejects.toThrow('too many connections')
  await vi.advanceTimersByTimeAsync(10)
  connections.give(first, true)
  await third
})

it('transactions that begin together fail together if the server cannot be reached', async () => {
  let attempts = 0
  const pool = new FakePool(8, async () => {
    attempts++
    await new Promise((resolve) => void setTimeout(resolve, 10))
    throw new Error('the server is down')
  })
  const all = Promise.allSettled(Array.from({ length: 4 }, () => pool.connections(4).take(notOver)))
  await vi.advanceTimersByTimeAsync(10)
  expect((await all).map(({ status }) => status)).toEqual(Array(4).fill('rejected'))
  expect(attempts).toBe(4)
})

it('a connection that was taken before a store of the pool keeps connections goes back to the pool', async () => {
  const pool = new FakePool(10)
  const connections = pool.connections(0)
  const early = await connections.take(notOver)
  pool.connections(2)
  connections.give(early, false)
  expect(pool.back).toEqual([[early, false]])
})

it('a connection that was idle for too long while the process did not run is not used', async () => {
  const pool = new FakePool(10)
  const connections = pool.connections(1)
  const old = await connections.take(notOver)
  connections.give(old, false)
  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 5000)
  expect(await connections.take(notOver)).not.toBe(old)
  expect(pool.back).toEqual([[old, false]])
})
