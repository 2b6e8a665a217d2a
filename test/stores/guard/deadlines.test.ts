import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { type Call, Deadlines } from '../../../src/stores/guard/deadlines.ts'

function call(expired: string[], name: string): Call {
  return {
    expire: (wasBusy) => void expired.push(wasBusy ? `${name}, busy` : name),
    charges: [],
    since: 0,
    lost: 0,
    isPending: false,
    before: undefined,
    after: undefined,
  }
}

/** The names without a note that this process was busy, since that depends on the machine. */
function namesOf(expired: readonly string[]): string[] {
  return expired.map((each) => each.replace(', busy', ''))
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

describe('deadlines', () => {
  it('expire calls that were not answered, in the order in which they were sent', async () => {
    const expired: string[] = []
    const deadlines = new Deadlines(30)
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => call(expired, name))
    for (const each of [a!, b!, c!]) deadlines.add(each)
    expect(deadlines.remove(b!)).toBe(true)
    await pause(20)
    deadlines.add(d!)
    await vi.waitFor(() => expect(namesOf(expired)).toEqual(['a', 'c']), { interval: 1 })
    expect(deadlines.remove(a!)).toBe(false)
    await vi.waitFor(() => expect(namesOf(expired)).toEqual(['a', 'c', 'd']))
  })

  it('do not expire a call whose answer waits to be read, however long this process was busy', async () => {
    const expired: string[] = []
    const deadlines = new Deadlines(10)
    const late = call(expired, 'late')
    const [near, far, close] = await connection()
    const read = new Promise<boolean>((resolve) => {
      near.once('data', () => resolve(deadlines.remove(late)))
    })
    // After this phase of the event loop come its timers, and only then what was read.
    setImmediate(() => {
      deadlines.add(late)
      far.write('answer')
      compute(60)
    })
    expect(await read).toBe(true)
    close()
    await pause(20)
    expect(expired).toEqual([])
  })

  it('keep nothing of what was answered: no timer runs while nothing is pending', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length
    const deadlines = new Deadlines(10)
    for (let i = 0; i < 1000; i++) {
      const answered = call([], '')
      deadlines.add(answered)
      deadlines.remove(answered)
      expect([answered.before, answered.after]).toEqual([undefined, undefined])
    }
    await pause(30)
    const before = timers()
    await pause(20)
    expect(timers()).toBeLessThanOrEqual(before)
  })

  it('expire all that some are lost for, and the others later', async () => {
    const expired: string[] = []
    const deadlines = new Deadlines(20)
    const calls = ['a', 'b', 'c', 'd'].map((name) => call(expired, name))
    for (const each of calls) deadlines.add(each)
    deadlines.expireWhere((each) => each === calls[1] || each === calls[2])
    expect(expired).toEqual(['b', 'c'])
    await vi.waitFor(() => expect(namesOf(expired)).toEqual(['b', 'c', 'a', 'd']))
  })

  it('give the time back for which this process did not run', async () => {
    const expired: string[] = []
    const deadlines = new Deadlines(80)
    deadlines.add(call(expired, 'a'))
    compute(400)
    await new Promise((resolve) => setImmediate(resolve))
    await new Promise((resolve) => setImmediate(resolve))
    expect(expired).toEqual([])
    await vi.waitFor(() => expect(expired).toEqual(['a, busy']))
  })

  it('give a call no more time than was lost while it waited', async () => {
    const deadlines = new Deadlines(40)
    const expired: string[] = []
    deadlines.add(call(expired, 'before'))
    compute(2000)
    const ms = await elapsed((done) => deadlines.add({ ...call(expired, 'after'), expire: done }))
    expect(ms).toBeLessThan(1000)
    expect(expired).toEqual(['before, busy'])
  })

  it('expire a call after a bounded number of turns, however long each is', async () => {
    const expired: string[] = []
    const deadlines = new Deadlines(20)
    deadlines.add(call(expired, 'a'))
    let turns = 0
    for (; expired.length === 0 && turns < 50; turns++) {
      compute(40)
      await new Promise((resolve) => setTimeout(resolve))
    }
    expect(expired).toEqual(['a, busy'])
    expect(turns).toBeGreaterThanOrEqual(4)
    expect(turns).toBeLessThanOrEqual(16)
  })

  it.each([1, 5, 50])('of %i ms are met within 10 ms by a process that is not busy', async (ms) => {
    const deadlines = new Deadlines(ms)
    const times: number[] = []
    // A busy machine delays some of them.
    for (let i = 0; i < 40 && !(Math.min(...times) <= ms + 10); i++)
      times.push(await elapsed((done) => deadlines.add({ ...call([], ''), expire: done })))
    expect(Math.min(...times)).toBeLessThanOrEqual(ms + 10)
    expect(Math.min(...times)).toBeGreaterThanOrEqual(ms - 1)
  })
})
