// Checks the pages about algorithms: draws their pictures again, and tests that the worst cases can happen and are never exceeded.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mostWithin } from '../../docs/plot/decide.ts'
import { draw } from '../../docs/plot/pictures.ts'
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
import { pages, readPage } from '../support/pages.ts'
import { root } from '../support/programs.ts'
import { admitted, burst, each, edge, many, worstAttack } from '../support/worst-case.ts'

const page = readFileSync(join(root, 'docs/concepts/choosing-an-algorithm.md'), 'utf8')

describe('the pictures of the algorithms', () => {
  it('are what `npm run plots` draws now', async () => {
    const drawn = await draw()
    expect(readdirSync(join(root, 'docs/img/algorithms')).toSorted()).toEqual([...drawn.keys()].toSorted())
    for (const [name, text] of drawn) {
      const committed = readFileSync(join(root, 'docs/img/algorithms', name), 'utf8')
      expect(committed === text, `${name} is out of date: npm run plots`).toBe(true)
    }
  })

  it('are the same each time they are drawn', async () => {
    expect(await draw()).toEqual(await draw())
  })

  it('are all on a page', () => {
    const shown = pages.flatMap((each) =>
      [...readPage(each).matchAll(/\/img\/algorithms\/([\w-]+\.svg)\)/g)].map(([, name]) => name),
    )
    expect([...new Set(shown)].toSorted()).toEqual(readdirSync(join(root, 'docs/img/algorithms')).toSorted())
  })

  it('are drawn for light and dark pages, and are narrow enough for phones', async () => {
    for (const [name, text] of await draw()) {
      const width = Number(/<svg [^>]*\bwidth="(\d+)"/.exec(text)?.[1])
      expect(text, name).toMatch(/<svg [^>]*viewBox="0 0 \d+ \d+"><style>@media \(prefers-color-scheme:dark\)\{/)
      // On a phone with 328 pixels for text, letters of 13 are then at least 7 high.
      expect(width, name).toBeLessThanOrEqual(610)
      const colours = new Set(
        [...text.matchAll(/ (fill|stroke)="(#\w+|white)"/g)].map(([attribute]) => attribute.trim()),
      )
      for (const colour of colours) expect(text, name).toContain(`[${colour}]{`)
    }
  })
})

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

/** Random traffic within half a minute, in milliseconds: bursts, pauses, and requests at window edges. */
const traffic = fc
  .array(
    fc.tuple(
      fc.oneof(fc.constantFrom(0, 1, 500, 999, 1000, 9999, 10_000), fc.nat({ max: 12_000 })),
      fc.nat({ max: 12 }),
    ),
    { maxLength: 20 },
  )
  .map((bursts) => {
    let now = 0
    return bursts.flatMap(([pause, count]) => many(count, (now += pause)))
  })

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

  it.each(worst)('$row: is never exceeded', ({ row, limit, goingOn }) => {
    fc.assert(
      fc.property(traffic, (times) => {
        expect(mostWithin(admitted(limit, times, goingOn), 10_000)).toBeLessThanOrEqual(stated.get(row)!)
      }),
    )
  })
})

it.each(['concepts/algorithms.md', 'internals/redis-layout.md'])(
  'docs/%s states the number of entries in one field of Redis',
  (name) => {
    expect(readFileSync(join(root, 'docs', name), 'utf8')).toMatch(new RegExp(`in blocks of ${BLOCK_ENTRIES}\\b`))
  },
)
