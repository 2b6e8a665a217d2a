// Small texts beside counts, in each database that processes share.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, guard, memoryStore, perMinute } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite.ts'
import { perform } from '../../src/stores/store.ts'
import { type KeptText, LARGEST_TEXT, type SharedTexts, textsIn } from '../../src/stores/texts.ts'
import { casesHere } from '../parts.ts'
import { sharedPlaces, type SharedPlace } from '../support/shared-stores.ts'
import { sqliteAddon } from '../support/sqlite-addon.ts'

beforeAll(sqliteAddon, 600_000)

const cases = casesHere(sharedPlaces, ([name]) => name === 'Redis' || name === 'SQLite')
let topics = 0

describe.each(cases)('texts in %s', (_name, start) => {
  let place: SharedPlace
  beforeAll(async () => {
    place = await start()
  }, 120_000)
  afterAll(() => place.remove())

  /** Returns the texts of a topic of its own, as two processes see them. */
  function processes(): readonly [SharedTexts, SharedTexts] {
    const topic = `topic${++topics}`
    return [textsIn(place.store(), topic)!, textsIn(guard(place.store()), topic)!]
  }

  const texts = (kept: readonly KeptText[]): Record<string, string> =>
    Object.fromEntries(kept.map(({ name, text }) => [name, text]))

  it('are read by another process, with their age, and are replaced and deleted', async () => {
    const [one, other] = processes()
    expect(await other.read(9)).toEqual([])
    await one.keep('a', 60_000, 'first')
    await other.keep('b', 60_000, 'of the other')
    await one.keep('a', 60_000, 'second')
    expect(texts(await other.read(9))).toEqual({ a: 'second', b: 'of the other' })
    expect(texts(await one.read(9, 'b'))).toEqual({ b: 'of the other' })
    expect(await one.read(9, 'c')).toEqual([])
    await pause(300)
    const [kept] = await other.read(9, 'a')
    expect(kept!.age).toBeGreaterThanOrEqual(200)
    expect(kept!.age).toBeLessThan(10_000)
    await one.keep('a', 0, '')
    expect(texts(await other.read(9))).toEqual({ b: 'of the other' })
  })

  it('end by themselves, each at its time', async () => {
    const [one, other] = processes()
    await one.keep('short', 2000, 'text')
    await one.keep('long', 60_000, 'text')
    expect(await other.read(9)).toHaveLength(2)
    await pause(2100)
    expect(texts(await other.read(9))).toEqual({ long: 'text' })
    expect(await other.read(9, 'short')).toEqual([])
  })

  it('keep any text and name of at most 16 kB, and are no more than asked for', async () => {
    const [one, other] = processes()
    const text = fc.string({ unit: 'binary', maxLength: 50 }).map((each) => JSON.stringify(each))
    await fc.assert(
      fc.asyncProperty(text, async (given) => {
        await one.keep('any', 60_000, given)
        expect(texts(await other.read(9, 'any'))).toEqual({ any: given })
      }),
      { numRuns: 20 },
    )
    const largest = 'é'.repeat(LARGEST_TEXT / 2)
    await one.keep('any', 60_000, largest)
    expect(texts(await other.read(9))).toEqual({ any: largest })
    // Nothing of the package writes a longer one.
    await one.keep('any', 60_000, `${largest}xx`)
    expect(texts(await other.read(9))).toEqual({ any: '' })
    for (let i = 0; i < 5; i++) await one.keep(`more ${i}`, 60_000, 'text')
    expect(await other.read(3)).toHaveLength(3)
  })

  it('leave counts alone, and are no keys of limiters', async () => {
    const [one] = processes()
    await one.keep('a', 60_000, 'text')
    const store = place.store()
    const limiter = createLimiter({ name: 'fleet', keyer: (key: string) => key, limits: perMinute(5), store })
    await limiter.consume('a')
    expect((await limiter.peek('a', { cost: 0 })).limits[0]).toMatchObject({ remaining: 4 })
    await perform(store, { kind: 'forget', limiter: 'fleet', key: 'a' })
    expect(texts(await one.read(9))).toEqual({ a: 'text' })
  })
})

it('do not wait for a file that is in use: that would block the process', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-texts-'))
  const file = join(folder, 'limits.db')
  const texts = textsIn(sqliteStore(file), 'fleet')!
  await texts.keep('a', 60_000, 'text')
  const other = new Database(file)
  other.exec('BEGIN IMMEDIATE')
  const began = performance.now()
  await expect(texts.keep('a', 60_000, 'more')).rejects.toMatchObject({ code: 'STORE_BUSY' })
  expect(performance.now() - began).toBeLessThan(100)
  expect(await texts.read(9)).toMatchObject([{ name: 'a', text: 'text' }])
  other.exec('ROLLBACK')
  other.close()
  await texts.keep('a', 60_000, 'more')
  rmSync(folder, { recursive: true })
})

it('are nowhere where processes share nothing', () => {
  expect(textsIn(memoryStore(), 'fleet')).toBeUndefined()
})
