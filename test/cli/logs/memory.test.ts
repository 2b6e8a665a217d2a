import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { LogEntry } from '../../../src/cli/logs/request.ts'
import { Reorder } from '../../../src/cli/logs/reorder.ts'
import { Tally } from '../../../src/cli/replay/tally.ts'
import { Activity, type Suggestion } from '../../../src/cli/suggest/command.ts'
import { CommandLine } from '../../support/command-line.ts'
import { clfLine } from '../../support/logs.ts'

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

  it('in a report', () => {
    const tally = new Tally(false, 2 * KEYS)
    expect(growth((key) => tally.add(key, 0, false))).toBeLessThan(5)
    expect(tally.report().keysDenied).toBe(KEYS + 1)
  })
})

it('the reorder window keeps no released entry', () => {
  const entry = (line: number): LogEntry => ({
    request: { time: line, ip: '', user: '', method: '', path: '', headers: undefined, fields: undefined },
    key: Buffer.alloc(20_000, `${line} `).toString(),
    cost: 1,
    line,
    chunk: { size: 10, held: 0 },
  })
  const reorder = new Reorder(599)
  for (let line = 0; line < 1000; line++) reorder.add(entry(line))
  const before = used()
  const released: LogEntry[] = []
  reorder.release(released)
  expect(released.splice(0).length).toBe(401)
  expect(before - used()).toBeGreaterThan(5)
  reorder.flush(released)
  expect(released[0]!.line).toBe(401)
})

it('suggest reads on after a line of 100 MB in bounded memory', async () => {
  const peak = `process.on('exit', () => process.stderr.write(String(process.resourceUsage().maxRSS)))`
  const flags = [`--import=data:text/javascript,${encodeURIComponent(peak)}`]
  const cli = new CommandLine()
  onTestFinished(() => cli.remove())
  const line = `${clfLine(Date.parse('2026-11-22T11:00:00Z'), '192.0.2.1', '/')}\n`
  const [small, large] = await Promise.all(
    [1e6, 1e8].map(async (size) => {
      const input = gzipSync(`${line}${'x'.repeat(size)}\n${line}`)
      const { code, out, error } = await cli.start(['suggest', '-', '--json'], { input, flags })
      expect(code).toBe(0)
      const { log } = JSON.parse(out) as Suggestion
      expect(log).toMatchObject({ requests: 2, lines: 3, unread: [{ reason: 'longer than 64 KiB', lines: 1 }] })
      return Number(error) / 1024
    }),
  )
  // A line that is held takes 100 MB and more. Buffers that are not yet collected take up to 60.
  expect(large! - small!).toBeLessThan(80)
})
