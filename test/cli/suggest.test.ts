import fc from 'fast-check'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { Activity, Histogram, type Suggestion, WINDOWS } from '../../src/cli/suggest/command.ts'
import { createLimiter, fixedWindow, memoryStore } from '../../src/index.ts'
import { commandLine, type Result } from '../support/command-line.ts'
import { clfLine } from '../support/logs.ts'

const cli = commandLine()

/** Runs `sluice suggest` as a shell does. */
function suggest(words: readonly string[], input: string | Buffer = ''): Promise<Result> {
  return cli.run(['suggest', ...words], input)
}

const START = Date.parse('2026-11-22T11:00:00Z')

describe('sluice suggest', () => {
  it('prints what clients do, and what quotas would deny', async () => {
    const lines = Array.from({ length: 90 }, (_, i) => clfLine(START + i * 1000, '192.0.2.1', '/'))
    lines.push(...[1, 2].map((i) => clfLine(START + 90_000, '192.0.2.2', `/${i}`)), 'no \u001b[31m log')
    cli.file('access.log', lines.join('\n'))
    const { code, out, error } = await suggest(['access.log'])
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toContain('92 requests of 93 lines (clf), from 2026-11-22T11:00:00.000Z to 2026-11-22T11:01:30.000Z')
    expect(out).toContain('not read: 1 line, another format\n  access.log:93: no \\u001b[31m log')
    expect(out).toContain('2 keys')
    expect(out).toMatch(/^1m +2 +60 +60 +60 +60$/m)
    expect(out).toMatch(/^fixedWindow 60\/1m anchor=clock +0 +0 +0 %$/m)
    const found = JSON.parse((await suggest(['access.log', '--json'])).out) as Suggestion
    expect(found).toMatchObject({ keys: 2, dropped: 0, log: { requests: 92, lines: 93 } })
    expect(found.windows.map(({ window }) => window)).toEqual(['1s', '1m', '1h', '1d'])
    expect(found.windows[1]).toMatchObject({ perKey: { p50: 2, max: 60 }, perKeyWindow: { p50: 30 }, keyWindows: 3 })
  })

  it('reads gzip and plain text from the standard input', async () => {
    const text = `${clfLine(START, '192.0.2.1', '/')}\n`
    for (const input of [text, gzipSync(text)]) {
      const { out } = await suggest(['-', '--json'], input)
      expect(JSON.parse(out)).toMatchObject({ keys: 1, log: { requests: 1 } })
    }
  })

  it('counts requests of keys beyond its bound', async () => {
    const lines = Array.from({ length: 30 }, (_, i) => clfLine(START, `192.0.2.${i}`, '/'))
    const found = JSON.parse((await suggest(['-', '--max-keys', '10', '--json'], lines.join('\n'))).out) as Suggestion
    expect(found).toMatchObject({ keys: 10, dropped: 20 })
  })
})

describe('the figures', () => {
  it('say of a quota what fixedWindow on the clock denies', () => {
    const requests = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(400)), { minLength: 1, maxLength: 200 })
    fc.assert(
      fc.property(requests, (given) => {
        const activity = new Activity(10)
        const times: [string, number][] = []
        let time = START
        for (const [key, gap] of given) {
          time += gap ** 2
          times.push([key, time])
          activity.add(key, time, 1)
        }
        for (const [i, { candidates }] of activity.finish().entries()) {
          for (const { quota, denied, keysDenied } of candidates) {
            const clock = { now: () => time }
            const limits = fixedWindow({ quota, window: WINDOWS[i]!, anchor: 'clock' })
            const limiter = createLimiter({ keyer: (key: string) => key, limits, store: memoryStore({ clock }) })
            const refused = times.filter(([key, now]) => ((time = now), !limiter.consume(key).allowed))
            expect([denied, keysDenied]).toEqual([refused.length, new Set(refused.map(([key]) => key)).size])
          }
        }
      }),
      { numRuns: 50 },
    )
  })

  it('have exact percentiles of small numbers, and up to 0.1 % too small ones of large numbers', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(1_000_000), { minLength: 1, maxLength: 200 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (given, share) => {
          const histogram = new Histogram()
          for (const each of given) histogram.add(each)
          const exact = given.toSorted((a, b) => a - b)[Math.max(1, Math.ceil(share * given.length)) - 1]!
          const found = histogram.percentile(share)
          expect(found).toBeLessThanOrEqual(exact)
          expect(found).toBeGreaterThanOrEqual(exact < 2048 ? exact : exact * 0.999)
          expect(histogram.max).toBe(Math.max(...given))
        },
      ),
    )
  })

  it('are kept in a bounded number of counts', () => {
    const histogram = new Histogram()
    for (let i = 0; i < 200_000; i++) histogram.add(Math.floor(1.0002 ** i) % 2 ** 52)
    expect(histogram.size).toBeLessThan(2048 + 52 * 1024)
  })
})
