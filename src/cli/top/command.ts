import { parseDuration } from '../../util/duration.ts'
import { command, type Command, Misuse, numberIn, SOURCE_OPTIONS, SOURCE_USAGE } from '../command.ts'
import { columns, countText, grouped, inOneLine, jsonText, timeCells } from '../print.ts'
import { SluiceError } from '../../util/errors.ts'
import { refuse } from '../../util/validate.ts'
import { TOPIC } from '../../dashboard/fleet.ts'
import { type KeySource, listKeys, readable, type StoredKey, withAllKeys, withPlace } from '../sources.ts'
import { fleetOf, fleetPage } from './fleet.ts'
import { cut, live, type Page } from './screen.ts'
import type { HeldByLimit } from '../../stores/held.ts'

const AT_ONCE = 50

/** The most used keys that were found. Their number is bounded. On each refresh they are read again. */
class Ranking {
  readonly #limiter: string | undefined
  readonly #most: number
  readonly #kept = new Map<string, { readonly key: StoredKey; readonly rows: readonly Row[] }>()
  /** How many keys could not be read: they are damaged, or another version of the package wrote them. */
  unread = 0

  constructor(limiter: string | undefined, most: number) {
    this.#limiter = limiter
    this.#most = most
  }

  /** Reads keys, and keeps the most used ones. */
  readonly add = async (keys: readonly StoredKey[]): Promise<void> => {
    for (let at = 0; at < keys.length; at += AT_ONCE) {
      await Promise.all(keys.slice(at, at + AT_ONCE).map((key) => this.#addOne(key)))
    }
    this.#forget()
  }

  refresh(): Promise<void> {
    return this.add([...this.#kept.values()].map(({ key }) => key))
  }

  /** Returns the rows, with the largest used share first. Locked keys count as fully used. */
  rows(): Row[] {
    return [...this.#kept.values()].flatMap(({ rows }) => rows).toSorted(compare)
  }

  async #addOne(key: StoredKey): Promise<void> {
    if (this.#limiter !== undefined && key.limiter !== this.#limiter) return
    const held = await readable(key)
    if (held === undefined) return void this.unread++
    const rows = held.limits.map((each) => rowOf(key, each)).filter(isInUse)
    if (rows.length === 0) this.#kept.delete(key.name)
    else this.#kept.set(key.name, { key, rows })
  }

  #forget(): void {
    if (this.#kept.size <= this.#most) return
    const ranked = [...this.#kept].toSorted(([, a], [, b]) => compare(mostUsed(a.rows), mostUsed(b.rows)))
    for (const [name] of ranked.slice(this.#most)) this.#kept.delete(name)
  }
}

/** The state of one key under one limit. Durations are in milliseconds. Of an algorithm that is not registered here, only `lockedFor` is known. */
export interface Row {
  readonly limiter: string
  readonly key: string
  readonly limit: string
  readonly used: number | undefined
  readonly capacity: number | undefined
  readonly resetAfter: number | undefined
  readonly slots: boolean
  readonly lockedFor: number
}

function rowOf({ limiter, key }: StoredKey, { limit, verdict, lockedFor }: HeldByLimit): Row {
  const { used, capacity, resetAfter, slots = false } = verdict ?? {}
  return { limiter, key, limit, used, capacity, resetAfter, slots, lockedFor }
}

function isInUse({ used, lockedFor }: Row): boolean {
  return used === undefined || used > 0 || lockedFor > 0
}

function mostUsed(rows: readonly Row[]): Row {
  return rows.toSorted(compare)[0]!
}

function compare(a: Row, b: Row): number {
  return shareOf(b) - shareOf(a) || (b.used ?? 0) - (a.used ?? 0) || (a.key < b.key ? -1 : 1)
}

/** Returns the used share of a row, from 0 to 1. It is 0 for an unknown algorithm. */
export function shareOf({ used, capacity, lockedFor }: Row): number {
  if (lockedFor > 0) return 1
  if (used === undefined || capacity === undefined) return 0
  return capacity === 0 ? 1 : Math.min(1, used / capacity)
}

const HEADINGS = ['used', '', 'of', 'key', 'limit', 'limiter', 'resets in', 'locked for']
const NUMBERS = new Set([0])
const KEY = 3
const KEY_WIDTH = 40
const BAR = 10

/** Returns the rows as lines of at most `width` characters. Control characters are escaped. */
export function tableOf(rows: readonly Row[], width: number): string[] {
  if (rows.length === 0) return [cut('No key uses a part of a limit now.', width)]
  const lines = columns([HEADINGS, ...rows.map((row) => cellsOf(row, width))], NUMBERS)
  return lines.map((line) => cut(line, width))
}

function cellsOf(row: Row, width: number): string[] {
  const { used, capacity, limit, limiter, resetAfter, slots, lockedFor, key } = row
  const times = timeCells(resetAfter, slots, lockedFor)
  const texts = [countText(used), bar(shareOf(row)), countText(capacity), key, limit, limiter, ...times]
  return texts.map((text, i) => (i === KEY && width < Infinity ? cut(inOneLine(text), KEY_WIDTH) : text))
}

function bar(share: number): string {
  const full = Math.ceil(share * BAR)
  return '█'.repeat(full) + '░'.repeat(BAR - full)
}

const USAGE = `Usage: sluice top <url>           shows the keys that have used most of their limits; q quits
       sluice top --fleet <url>   shows the processes that have a dashboard, and their limits and most denied keys

  --limiter <name>   only keys of this limiter
  --interval <time>  the time between refreshes (default: 2s)
  --keys <number>    how many keys to show (default: 100)
  --once             reads all keys once, prints the table and ends; the default without a terminal
  --json             prints JSON; implies --once
  ${SOURCE_USAGE}

A refresh reads the keys on the screen again, and the next 5,000 keys.
The URL is one of redis://, postgres://, mysql:// or sqlite:<file>.
`

const KEYS_PER_REFRESH = 5000
const MOST_KEYS = 10_000

const OPTIONS = {
  limiter: { type: 'string' },
  fleet: { type: 'boolean', default: false },
  interval: { type: 'string', default: '2s' },
  keys: { type: 'string', default: '100' },
  once: { type: 'boolean', default: false },
  ...SOURCE_OPTIONS,
} as const

export const topCommand: Command = command(USAGE, OPTIONS, async (words, values, { stdout }) => {
  const [url = ''] = words
  if (words.length !== 1) throw new Misuse('expected a URL')
  if (values.fleet && values.limiter !== undefined)
    throw new SluiceError('INVALID_OPTION', '--fleet shows processes and not keys. Leave --limiter out')
  const ranking = new Ranking(values.limiter, numberIn('--keys', values.keys, 1, MOST_KEYS))
  const interval = intervalOf(values.interval)
  const isLive = stdout.isTTY === true && process.stdin.isTTY && !values.once && !values.json
  if (values.fleet)
    return withPlace(url, values, async (place) => {
      const texts = place.texts(TOPIC)
      if (isLive) return live(interval, async () => fleetPage(await fleetOf(texts)))
      const sums = await fleetOf(texts)
      return { text: values.json ? jsonText(sums) : `${fleetPage(sums).lines(Infinity).join('\n')}\n` }
    })
  return withAllKeys(url, values, async (source) => {
    if (isLive) return live(interval, () => refreshed(source, ranking))
    await listKeys(source, Infinity, ranking.add)
    const rows = ranking.rows()
    const text = values.json ? `${JSON.stringify(rows)}\n` : `${tableOf(rows, Infinity).join('\n')}\n`
    return { text, note: ranking.unread === 0 ? '' : `${unreadText(ranking)}\n` }
  })
})

function unreadText({ unread }: Ranking): string {
  return `${grouped(unread)} ${unread === 1 ? 'key is' : 'keys are'} damaged, or of another version of the package`
}

async function refreshed(source: KeySource, ranking: Ranking): Promise<Page> {
  ranking.unread = 0
  await ranking.refresh()
  await listKeys(source, KEYS_PER_REFRESH, ranking.add)
  const title = `${grouped(await source.size())} ${source.contents}${ranking.unread === 0 ? '' : `, ${unreadText(ranking)}`}`
  return { title, lines: (columns) => tableOf(ranking.rows(), columns) }
}

function intervalOf(text: string): number {
  const ms = parseDuration(text)
  if (ms !== undefined && ms >= 100 && ms <= 3_600_000) return ms
  return refuse('--interval', 'a time from 100ms to 1h, such as 2s', text)
}
