// Checks README.md, except its code blocks.
import { describe, expect, it } from 'vitest'
import { createLimiter, everyone, gcra, type Limit, memoryStore, perMinute, slidingWindowLog } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { readPage } from '../support/pages.ts'

const readme = readPage('README.md')

it('README.md says how to run the tests and the showcase, and that tests may install servers', () => {
  expect(readme).toMatch(/^npm ci && npm start /m)
  expect(readme).toMatch(/^npm start -- --once /m)
  expect(readme).toMatch(/^npm ci && npm test /m)
  expect(readme).toMatch(/tests may install servers \(`redis-server`, `postgresql`\)/)
})

it('README.md has at most 150 lines', () => {
  expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(150)
})

it('README.md explains each letter of the headers right below the first response', () => {
  const below = readme.slice(readme.indexOf('RateLimit: "'), readme.indexOf('\n## ', readme.indexOf('RateLimit: "')))
  for (const letter of ['q', 'w', 'r', 't']) expect(below).toContain(`\`${letter}\``)
})

/** Counts how many requests pass in each of three minutes, for a client that always sends. */
function admittedPerMinute(limits: Limit): number[] {
  const clock = virtualClock()
  const limiter = createLimiter({ keyer: everyone, limits, store: memoryStore({ clock }) })
  return [0, 0, 0].map((count) => {
    for (let tenths = 0; tenths < 600; tenths++) {
      while (limiter.consume({}).allowed) count++
      clock.advance(100)
    }
    return count
  })
}

describe('README.md: the table of a first and a later minute', () => {
  const rows = [...readme.matchAll(/^\| `(\w+\(.*\))` +\| +(\d+) +\| +(\d+) +\|$/gm)].map(([, ...cells]) => cells)
  const limits: Readonly<Record<string, Limit>> = {
    'perMinute(100)': perMinute(100),
    "gcra({ quota: 100, window: '1m', burst: 10 })": gcra({ quota: 100, window: '1m', burst: 10 }),
    "slidingWindowLog({ quota: 100, window: '1m' })": slidingWindowLog({ quota: 100, window: '1m' }),
  }

  it('has these limits', () => expect(rows.map(([code]) => code)).toEqual(Object.keys(limits)))

  it.each(rows)('%s: %s, then %s', (code, first, later) => {
    expect(admittedPerMinute(limits[code!]!)).toEqual([Number(first), Number(later), Number(later)])
  })
})
