import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import type { LogEntry } from '../../../src/cli/logs/request.ts'
import { Queue } from '../../../src/cli/logs/late.ts'
import { ExactLog } from '../../../src/cli/replay/replay.ts'
import { Tally } from '../../../src/cli/replay/tally.ts'
import { Activity } from '../../../src/cli/suggest/command.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Megabytes of the heap that are in use. */
function used(): number {
  collect()
  return process.memoryUsage().heapUsed / 2 ** 20
}

const KEYS = 3000

/** Counts keys, each cut from a line of 15 kB. Returns the growth in megabytes. */
function growth(count: (key: string) => void): number {
  count('the first key of all')
  const before = used()
  for (let i = 0; i < KEYS; i++) count(`${i}`.padStart(15_000, 'x').slice(-32))
  return used() - before
}

describe('the memory of keys does not grow with the lines that they are cut from', () => {
  it('in suggest', () => {
    const activity = new Activity(2 * KEYS)
    expect(growth((key) => activity.add(key, 0, 1))).toBeLessThan(5)
    expect(activity.keys).toBe(KEYS + 1)
  })

  it('in a comparison', () => {
    const log = new ExactLog(1, 1000, 2 * KEYS)
    expect(growth((key) => log.compare(key, 0, 1, true))).toBeLessThan(5)
    expect(log.report()).toMatchObject({ compared: KEYS + 1, tooLenient: 0 })
  })

  it('in a report', () => {
    const tally = new Tally(false, 2 * KEYS)
    expect(growth((key) => tally.add(key, 0, false))).toBeLessThan(5)
    expect(tally.report().keysDenied).toBe(KEYS + 1)
  })
})

describe('a queue', () => {
  const entry = (line: number): LogEntry => ({
    request: { time: 0, ip: '', user: '', method: '', path: '', headers: undefined, fields: undefined },
    key: Buffer.alloc(20_000, `${line} `).toString(),
    cost: 1,
    line,
    chunk: { size: 10, held: 0 },
  })

  it('keeps no removed entry', () => {
    const queue = new Queue()
    for (let line = 0; line < 1000; line++) queue.add(entry(line))
    const before = used()
    for (let i = 0; i < 400; i++) queue.shift()
    expect(before - used()).toBeGreaterThan(5)
    expect(queue.first?.line).toBe(400)
  })
})
