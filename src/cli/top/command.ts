import { command, type Command, Misuse, SOURCE_OPTIONS, SOURCE_USAGE } from '../command.ts'
import { columns, countText, grouped, jsonText, timeCells } from '../print.ts'
import { SluiceError } from '../../util/errors.ts'
import { TOPIC } from '../../dashboard/fleet.ts'
import { listKeys, readable, type StoredKey, withAllKeys, withPlace } from '../sources.ts'
import { fleetLines, fleetOf } from './fleet.ts'
import type { HeldByLimit } from '../../stores/held.ts'

const AT_ONCE = 50

/** The most used keys that were found. Their number is bounded. */
class Ranking {
  readonly #limiter: string | undefined
  readonly #most: number
  readonly #kept = new Map<string, readonly Row[]>()
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

  /** Returns the rows, with the largest used share first. Locked keys count as fully used. */
  rows(): Row[] {
    return [...this.#kept.values()].flat().toSorted(compare)
  }

  async #addOne(key: StoredKey): Promise<void> {
    if (this.#limiter !== undefined && key.limiter !== this.#limiter) return
    const held = await readable(key)
    if (held === undefined) return void this.unread++
    const rows = held.limits.map((each) => rowOf(key, each)).filter(isInUse)
    if (rows.length > 0) this.#kept.set(key.name, rows)
  }

  #forget(): void {
    if (this.#kept.size <= this.#most) return
    const ranked = [...this.#kept].toSorted(([, a], [, b]) => compare(mostUsed(a), mostUsed(b)))
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
const BAR = 10

/** Returns the rows as lines. Control characters are escaped. */
export function tableOf(rows: readonly Row[]): string[] {
  if (rows.length === 0) return ['No key uses a part of a limit now.']
  return columns([HEADINGS, ...rows.map(cellsOf)], NUMBERS)
}

function cellsOf(row: Row): string[] {
  const { used, capacity, limit, limiter, resetAfter, slots, lockedFor, key } = row
  const times = timeCells(resetAfter, slots, lockedFor)
  return [countText(used), bar(shareOf(row)), countText(capacity), key, limit, limiter, ...times]
}

function bar(share: number): string {
  const full = Math.ceil(share * BAR)
  return '█'.repeat(full) + '░'.repeat(BAR - full)
}

const USAGE = `Usage: sluice top <url>           prints the keys that have used most of their limits
       sluice top --fleet <url>   prints the processes that have a dashboard, and their limits and most denied keys

  --limiter <name>   only keys of this limiter
  --keys <number>    how many keys to print (default: 100)
  --json             prints JSON
  ${SOURCE_USAGE}

It reads all keys once. The URL is one of redis://, postgres://, mysql:// or sqlite:<file>.
`

const MOST_KEYS = 10_000

const OPTIONS = {
  limiter: { type: 'string' },
  fleet: { type: 'boolean', default: false },
  keys: { type: 'string', default: '100' },
  ...SOURCE_OPTIONS,
} as const

export const topCommand: Command = command(USAGE, OPTIONS, async (words, values) => {
  const [url = ''] = words
  if (words.length !== 1) throw new Misuse('expected a URL')
  const { fleet, limiter, json } = values
  if (fleet && limiter !== undefined)
    throw new SluiceError('INVALID_OPTION', '--fleet shows processes and not keys. Leave --limiter out')
  const ranking = new Ranking(limiter, keysOf(values.keys))
  if (fleet) {
    const sums = await withPlace(url, values, (place) => fleetOf(place.texts(TOPIC)))
    return { text: json ? jsonText(sums) : `${fleetLines(sums).join('\n')}\n` }
  }
  await withAllKeys(url, values, (source) => listKeys(source, Infinity, ranking.add))
  const rows = ranking.rows()
  const text = json ? `${JSON.stringify(rows)}\n` : `${tableOf(rows).join('\n')}\n`
  return { text, note: ranking.unread === 0 ? '' : `${unreadText(ranking)}\n` }
})

function unreadText({ unread }: Ranking): string {
  return `${grouped(unread)} ${unread === 1 ? 'key is' : 'keys are'} damaged, or of another version of the package`
}

function keysOf(text: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count > 0 && count <= MOST_KEYS) return count
  throw new SluiceError('INVALID_OPTION', `--keys: expected a whole number from 1 to ${MOST_KEYS}, got ${text}`)
}
