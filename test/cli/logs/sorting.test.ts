import { gzipSync } from 'node:zlib'
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'
import { beforeAll, describe, expect, it } from 'vitest'
import { commandLine } from '../../support/command-line.ts'
import { clfLine } from '../../support/logs.ts'
import type { Report } from '../../../src/cli/replay/replay.ts'

const START = Date.parse('2026-11-22T11:00:00Z')
const LIMIT = ['--limit', 'slidingWindowLog 5/1m']

const cli = commandLine()

/** Returns lines of several clients in the order of their times, a few per second, so that many times are equal. */
function inOrder(count: number, seed = 7): string[] {
  const random = xoroshiro128plus(seed)
  const next = (below: number): number => (random.next() >>> 0) % below
  let second = 0
  return Array.from({ length: count }, (_, i) => {
    if (next(3) === 0) second += next(8)
    return clfLine(START + second * 1000, `192.0.2.${next(9)}`, `/${i}`)
  })
}

/** Puts blocks of lines in another order. The lines of one second stay in their order, if `size` is 1 for sorted lines. */
function shuffled(lines: readonly string[], seed = 3): string[] {
  const random = xoroshiro128plus(seed)
  const tagged = lines.map((line) => ({ line, place: random.next() }))
  return tagged.toSorted((one, other) => one.place - other.place).map(({ line }) => line)
}

const timeOf = (line: string): string => /\[(.*?)\]/.exec(line)![1]!

/** Returns lines by their times. Lines of one second keep their order. */
function sorted(lines: readonly string[]): string[] {
  return lines.toSorted((one, other) => timeOf(one).localeCompare(timeOf(other)))
}

const text = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('')

async function replayed(...words: readonly string[]): Promise<Report> {
  return JSON.parse(await cli.output('replay', ...words, ...LIMIT, '--json')) as Report
}

describe('a file that is out of order', { timeout: 120_000 }, () => {
  it('is replayed as its sorted copy, compressed or not', async () => {
    const lines = shuffled(inOrder(3000))
    cli.file('sorted.log', text(sorted(lines)))
    cli.file('shuffled.log', text(lines))
    cli.file('shuffled.log.gz', gzipSync(text(lines)))
    const expected = await replayed('sorted.log')
    expect(expected.decisions!.denied).toBeGreaterThan(100)
    expect(expected.decisions!.admitted).toBeGreaterThan(100)
    for (const name of ['shuffled.log', 'shuffled.log.gz']) {
      const found = await replayed(name)
      expect(found.decisions).toEqual(expected.decisions)
      expect(found.limits).toEqual(expected.limits)
      expect(found.log).toMatchObject({ lines: 3000, requests: 3000, unread: [] })
      expect(found.log.notes.join()).toMatch(/[\d,]+ lines were more than 10 s late. The log was sorted by time/)
    }
  })

  it('is read to the end behind one line of a wrong year', async () => {
    const lines = inOrder(500)
    cli.file('future.log', text([lines[0]!.replace('2026', '2036'), ...lines]))
    expect((await replayed('future.log')).log).toMatchObject({ requests: 501, until: '2036-11-22T11:00:00.000Z' })
  })
})

describe('several files', { timeout: 120_000 }, () => {
  it('are one log, in any order of the files, if some of them are out of order', async () => {
    const lines = inOrder(3000)
    const parts = [lines.slice(0, 1000), shuffled(lines.slice(1000, 2000)), shuffled(lines.slice(2000))]
    for (const [i, part] of parts.entries()) cli.file(`part${i}.log`, text(part))
    cli.file('part2.log.gz', gzipSync(text(parts[2]!)))
    cli.file('all.log', text(parts.flatMap(sorted)))
    const seconds = async (...names: string[]): Promise<Report['decisions']> => (await replayed(...names)).decisions
    const whole = await seconds('all.log')
    expect(await seconds('part0.log', 'part1.log', 'part2.log')).toEqual(whole)
    expect(await seconds('part2.log', 'part0.log', 'part1.log')).toEqual(whole)
    expect(await seconds('part2.log.gz', 'part1.log', 'part0.log')).toEqual(whole)
  })

  it('are sorted beside the standard input', async () => {
    const lines = inOrder(2000)
    cli.file('half.log', text(shuffled(lines.slice(0, 1000))))
    cli.file('whole.log', text(lines))
    const { code, out, error } = await cli.run(['replay', 'half.log', '-', ...LIMIT, '--json'], text(lines.slice(1000)))
    expect([code, error]).toEqual([0, ''])
    expect((JSON.parse(out) as Report).decisions).toMatchObject({
      requests: 2000,
      admitted: (await replayed('whole.log')).decisions!.admitted,
    })
  })
})

describe('the standard input', { timeout: 120_000 }, () => {
  it('is an error if more than 1 % of its lines are late, and the error says what to do', async () => {
    const input = text(shuffled(inOrder(1000)))
    for (const [command, ...limit] of [['replay', ...LIMIT], ['suggest']]) {
      const { code, out, error } = await cli.run([command!, '-', ...limit], input)
      expect([code, out]).toEqual([1, ''])
      expect(error).toMatch(/^sluice: the standard input: \d+ of 1,000 requests \([\d.]+ %\) are more than 10 s late/)
      expect(error).toMatch(/Write the log to a file, which is sorted, or set --reorder \d+s/)
    }
  })

  it('is read with a note if at most 1 % are late', async () => {
    const lines = inOrder(1000)
    const mixed = (count: number): string =>
      text([...lines.slice(0, 900), ...lines.slice(0, count), ...lines.slice(900)])
    const few = await cli.run(['suggest', '-'], mixed(10))
    expect(few.code).toBe(0)
    expect(few.out).toContain('note: 10 lines are omitted, because they are more than 10 s late')
    expect((await cli.run(['suggest', '-'], mixed(11))).code).toBe(1)
  })
})

describe('late lines that do not fit into memory', { timeout: 120_000 }, () => {
  /** Node has room for 30,000 lines. */
  const small = { flags: ['--max-old-space-size=32', '--max-semi-space-size=1'] }

  // 15 megabytes, the newest line first.
  beforeAll(() => {
    const agent = `"-" "${'Mozilla/5.0 '.repeat(10)}"`
    const line = (_: unknown, i: number): string => `${clfLine(START - i * 1000, '192.0.2.1', '/')} ${agent}`
    const lines = Array.from({ length: 80_000 }, line)
    cli.file('long.log', text(lines))
    cli.file('behind.log', text([...lines.toReversed(), lines[79_000]!]))
    for (let i = 0; i < 4; i++) cli.file(`long${i}.log`, text(lines.filter((_, at) => at % 4 === i)))
  }, 60_000)

  it('are an error that says what to do, and the command ends by itself', async () => {
    const { code, out, error } = await cli.start(['suggest', 'long.log'], small)
    expect([code, out]).toEqual([1, ''])
    expect(error).toMatch(
      /^sluice: long.log: the lines that are out of order do not fit into memory.*Sort the log by time.*--max-old-space-size/,
    )
  })

  it('are omitted with a note if at most 1 % of them do not fit', async () => {
    const { code, out } = await cli.start(['suggest', 'behind.log'], small)
    expect(code).toBe(0)
    expect(out).toContain('note: behind.log: the reorder window did not fit into memory, so it was shorter\n')
    expect(out).toContain('note: 1 line is omitted, because it is more than 10 s late\n')
    expect(out).not.toContain('sorted by time')
  })

  it('are an error also if each file alone fits', async () => {
    const files = Array.from({ length: 12 }, (_, i) => `long${i % 4}.log`)
    const { code, out, error } = await cli.start(['suggest', ...files], small)
    expect([code, out]).toEqual([1, ''])
    expect(error).toMatch(/^sluice: long\d.log: the lines that are out of order do not fit into memory/)
  })

  it('fit if Node has more', async () => {
    const { code, out } = await cli.start(['suggest', 'long.log'], { flags: ['--max-old-space-size=120'] })
    expect(code).toBe(0)
    expect(out).toContain('lines were more than 10 s late. The log was sorted by time')
  })
})
