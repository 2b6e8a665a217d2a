import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { Call, Calls } from '../../../src/stores/guard/calls.ts'
import { Part } from '../../../src/stores/guard/health.ts'
import type { Operation } from '../../../src/stores/store.ts'

/** The operation of calls that say nothing about a store. */
const operation: Operation = { kind: 'forget', limiter: 'test', key: 'a' }

/** Adds a call that notes its name when it is not answered in time. */
function add(calls: Calls, expired: string[], name: string, deadline: number): Call {
  const call = new Call(calls, operation, [], deadline, (error) => void (error !== undefined && expired.push(name)))
  calls.add(call)
  return call
}

/** Answers a call. Returns false if it was over. */
function answer(call: Call): boolean {
  const { isPending } = call
  call.answered()
  return isPending
}

/** Computes: nothing else runs in this process for so many milliseconds. */
function compute(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

async function elapsed(work: (done: () => void) => void): Promise<number> {
  const since = performance.now()
  await new Promise<void>((resolve) => work(resolve))
  return performance.now() - since
}

/** Two ends of a connection on this machine. */
async function connection(): Promise<[near: Socket, far: Socket, close: () => void]> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [far] = (await once(server, 'connection')) as [Socket]
  function close(): void {
    near.destroy()
    far.destroy()
    server.close()
  }
  return [near, far, close]
}

describe('calls', () => {
  it('expire in the order in which they were sent, unless they were answered', async () => {
    const expired: string[] = []
    const calls = new Calls(30)
    const [a, b] = ['a', 'b', 'c'].map((name) => add(calls, expired, name, 30))
    expect(answer(b!)).toBe(true)
    await pause(20)
    add(calls, expired, 'd', 30)
    await vi.waitFor(() => expect(expired).toEqual(['a', 'c']), { interval: 1 })
    expect(answer(a!)).toBe(false)
    await vi.waitFor(() => expect(expired).toEqual(['a', 'c', 'd']))
  })

  it('have a deadline each', async () => {
    const expired: string[] = []
    const calls = new Calls(10)
    add(calls, expired, 'long', 600)
    add(calls, expired, 'short', 10)
    await vi.waitFor(() => expect(expired).toEqual(['short', 'long']), 5000)
  })

  it('do not expire while an answer waits to be read, however long this process was busy', async () => {
    for (const ms of [15, 60, 120]) {
      const expired: string[] = []
      const calls = new Calls(10)
      const [near, far, close] = await connection()
      const read = new Promise<boolean>((resolve) => {
        near.once('data', () => resolve(answer(late!)))
      })
      let late: Call | undefined
      // After this phase of the event loop come its timers, and only then what was read.
      setImmediate(() => {
        late = add(calls, expired, 'late', 10)
        far.write('answer')
        compute(ms)
      })
      expect(await read).toBe(true)
      close()
      await pause(20)
      expect(expired).toEqual([])
    }
  })

  it('wait for an answer that came with the last look', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const expired: string[] = []
    const calls = new Calls(40)
    const late = add(calls, expired, 'late', 40)
    vi.advanceTimersByTime(45)
    // What was read comes before the end of the turn.
    expect([expired, answer(late)]).toEqual([[], true])
    await new Promise((resolve) => setImmediate(resolve))
  })

  it.each([
    { of: 100, most: 300, wait: 120 },
    { of: 1000, most: 300, wait: 300 },
    { of: 100, most: 20, wait: 20 },
  ])('that are sent at the same time wait longer, up to the longest deadline: %j', async ({ of, most, wait }) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const nothing = (): undefined => undefined
    const hooks = { partOf: () => '', trouble: nothing, probe: nothing, changed: nothing, lost: nothing }
    const part = new Part('', { least: 20, most }, hooks)
    part.begin(performance.now())
    part.answered(1, performance.now(), false, true)
    const expired: unknown[] = []
    const calls = new Calls(20, 1)
    const send = (): void => calls.add(new Call(calls, operation, [part], most, (error) => expired.push(error)))
    const pass = async (ms: number): Promise<number> => {
      vi.advanceTimersByTime(ms)
      await new Promise((resolve) => setImmediate(resolve))
      return expired.length
    }
    for (let i = 0; i < of; i++) send()
    expect([await pass(wait - 1), await pass(10)]).toEqual([0, of])
    // A call that is sent later is not part of the burst.
    send()
    expect([await pass(19), await pass(10)]).toEqual([of, of + 1])
  })

  it('leave no timer when nothing is pending', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length
    const before = timers()
    const calls = new Calls(10)
    for (let i = 0; i < 1000; i++) add(calls, [], '', 10).answered()
    await pause(30)
    expect(timers()).toBeLessThanOrEqual(before)
  })

  it('expire at once if they are lost, and the others later', async () => {
    const expired: string[] = []
    const calls = new Calls(20)
    const all = ['a', 'b', 'c', 'd'].map((name) => add(calls, expired, name, 20))
    calls.expireWhere((each) => each === all[1] || each === all[2])
    expect(expired).toEqual(['b', 'c'])
    await vi.waitFor(() => expect(expired).toEqual(['b', 'c', 'a', 'd']))
  })

  it('expire after a bounded number of turns, however long each is', async () => {
    const expired: string[] = []
    const calls = new Calls(20)
    add(calls, expired, 'a', 20)
    let turns = 0
    for (; expired.length === 0 && turns < 50; turns++) {
      compute(40)
      await new Promise((resolve) => setTimeout(resolve))
    }
    expect(expired).toEqual(['a'])
    expect(turns).toBeGreaterThanOrEqual(4)
    expect(turns).toBeLessThanOrEqual(16)
  })

  it('know when this process was busy', async () => {
    const calls = new Calls(50)
    const waiting = add(calls, [], 'a', 5000)
    expect(calls.lostSince(waiting, performance.now())).toBe(0)
    compute(60)
    expect(calls.lostSince(waiting, performance.now())).toBeGreaterThan(50)
    await pause(30)
    expect(calls.lostSince(waiting, performance.now())).toBeGreaterThan(50)
    const later = add(calls, [], 'b', 5000)
    expect(calls.lostSince(later, performance.now())).toBeLessThan(50)
    calls.close()
  })

  it.each([1, 5, 50])('of %i ms are over within 10 ms in a process that is not busy', async (ms) => {
    const calls = new Calls(ms)
    const times: number[] = []
    // A busy machine delays some of them.
    for (let i = 0; i < 40 && !(Math.min(...times) <= ms + 10); i++)
      times.push(await elapsed((done) => calls.add(new Call(calls, operation, [], ms, done))))
    expect(Math.min(...times)).toBeLessThanOrEqual(ms + 10)
    expect(Math.min(...times)).toBeGreaterThanOrEqual(ms - 1)
  })
})
