import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type Call, Deadlines } from '../../../src/stores/guard/deadlines.ts'

function call(expired: string[], name: string): Call {
  return {
    expire: () => void expired.push(name),
    charges: [],
    since: 0,
    isPending: false,
    before: undefined,
    after: undefined,
  }
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
    expect(expired).toEqual([])
    await pause(20)
    expect(expired).toEqual(['a', 'c'])
    expect(deadlines.remove(a!)).toBe(false)
    await pause(30)
    expect(expired).toEqual(['a', 'c', 'd'])
  })

  it('do not expire a call whose answer waits to be read, however long this process was busy', async () => {
    const expired: string[] = []
    const deadlines = new Deadlines(10)
    const late = call(expired, 'late')
    deadlines.add(late)
    const { port1, port2 } = new MessageChannel()
    const read = new Promise<boolean>((resolve) => {
      port2.on('message', () => resolve(deadlines.remove(late)))
    })
    port1.postMessage('answer')
    const until = performance.now() + 40
    while (performance.now() < until);
    expect(await read).toBe(true)
    port1.close()
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
    await pause(40)
    expect(expired).toEqual(['b', 'c', 'a', 'd'])
  })
})
