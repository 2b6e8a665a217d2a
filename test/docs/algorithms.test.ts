// Checks the pages about algorithms: the worst cases can happen. test/algorithms/adjust.test.ts has that nothing is worse.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { mostWithin } from '../../docs/plot/decide.ts'
import { builtIn } from '../../src/algorithms/index.ts'
import {
  fixedWindow,
  leakyBucket,
  type Limit,
  limit,
  quotaLinear,
  slidingWindowCounter,
  exponential,
  spacing,
  tokenBucket,
} from '../../src/index.ts'
import { BLOCK_ENTRIES } from '../../src/stores/redis/keys.ts'
import { root } from '../support/programs.ts'
import { admitted, burst, each, edge, many, worstAttack } from '../support/worst-case.ts'

const page = readFileSync(join(root, 'docs/concepts/choosing-an-algorithm.md'), 'utf8')

/** A limit of 10 per 10 s, the row of the table with its worst case, and the times of requests that reach it. */
interface Worst {
  readonly row: string
  readonly limit: Limit
  /** In milliseconds. The worst case is what is admitted within 10 s. */
  readonly attack: readonly number[]
  /** True if the times after the delay count, not the times of the requests. */
  readonly goingOn?: true
}

const base = { quota: 10, window: '10s' } as const

/** Those that need options, or an attack of their own. */
const chosen: readonly Worst[] = [
  { row: '`tokenBucket`', limit: tokenBucket(base), attack: burst },
  { row: "`tokenBucket`, `refill: 'interval'`", limit: tokenBucket({ ...base, refill: 'interval' }), attack: edge },
  { row: '`leakyBucket`, arriving', limit: leakyBucket(base), attack: burst },
  { row: '`leakyBucket`, after the delay', limit: leakyBucket(base), attack: burst, goingOn: true },
  { row: '`spacing`', limit: spacing('1s'), attack: burst },
  { row: '`fixedWindow`', limit: fixedWindow(base), attack: edge },
  { row: "`fixedWindow`, `anchor: 'clock'`", limit: fixedWindow({ ...base, anchor: 'clock' }), attack: edge.slice(1) },
  {
    row: '`slidingWindowCounter`',
    limit: slidingWindowCounter(base),
    attack: [...many(20, 9999), ...many(20, 19_500)],
  },
  // Empty at 0 s, and nearly full 19 s later.
  {
    row: '`quotaLinear`',
    limit: quotaLinear(base),
    attack: [...many(10, 0), ...many(20, 18_999), ...each(10, 19_000)],
  },
  { row: '`exponential`', limit: exponential(base), attack: [...many(10, 0), ...each(10, 999.999)] },
]

/** The worst case of every row. An algorithm without one above is attacked as most are. */
const worst: readonly Worst[] = [
  ...chosen,
  ...builtIn
    .filter(({ name }) => !chosen.some(({ limit }) => limit.algorithm === name))
    .map(({ name }) => ({
      row: `\`${name}\``,
      limit: limit({ ...base, algorithm: name }),
      attack: worstAttack(name),
    })),
]

describe('docs/concepts/choosing-an-algorithm.md: the worst case of 10 per 10 s', () => {
  const stated = new Map(
    [...page.matchAll(/^\| (`\w+`[^|]*?) *\|[^|]*\|[^|]*\| (\d+) +\|$/gm)].map(([, row, most]) => [row!, Number(most)]),
  )

  it('is stated for every algorithm', () => {
    expect([...stated.keys()].toSorted()).toEqual(worst.map(({ row }) => row).toSorted())
  })

  it.each(worst)('$row: can happen', ({ row, limit, attack, goingOn }) => {
    expect(mostWithin(admitted(limit, attack, goingOn), 10_000)).toBe(stated.get(row))
  })
})

it.each(['concepts/algorithms.md', 'internals/redis-layout.md'])(
  'docs/%s states the number of entries in one field of Redis',
  (name) => {
    expect(readFileSync(join(root, 'docs', name), 'utf8')).toMatch(new RegExp(`in blocks of ${BLOCK_ENTRIES}\\b`))
  },
)
