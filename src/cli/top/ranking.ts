import type { ScriptClient } from '../../stores/redis/clients.ts'
import { readRedisKey } from '../../stores/redis/keys.ts'
import { type HeldByLimit, heldOf } from '../../stores/held.ts'
import { fetchStored } from '../../stores/redis/stored.ts'

/** Keys that one SCAN looks at. Redis does nothing else meanwhile: about a millisecond. */
const COUNT = 1000

const SCAN = `local reply = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'hash')
return { reply[1], unpack(reply[2]) }`
const SIZE = `return redis.call('DBSIZE')`

/** A key and the server that has it. */
interface FoundKey {
  readonly runner: ScriptClient
  readonly name: string
}

/** Goes through the keys of all servers, part by part. After the last key it begins again. */
export class KeyScan {
  readonly #runners: readonly ScriptClient[]
  readonly #pattern: string
  #server = 0
  #cursor = '0'

  constructor(runners: readonly ScriptClient[], prefix: string) {
    this.#runners = runners
    this.#pattern = `${prefix.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
  }

  /** Calls `found` with the next keys until it has looked at about so many, or at all. True if this was the end. */
  async next(count: number, found: (keys: readonly FoundKey[]) => Promise<void>): Promise<boolean> {
    for (let looked = 0; looked < count; looked += COUNT) {
      const runner = this.#runners[this.#server]!
      const args = [this.#cursor, this.#pattern, String(COUNT)]
      const [cursor, ...names] = ((await runner.eval(SCAN, [], args)) as unknown[]).map(String)
      this.#cursor = cursor!
      await found(names.map((name) => ({ runner, name })))
      if (cursor === '0' && this.#nextServer()) return true
    }
    return false
  }

  /** How many keys the servers have, of all kinds. */
  async size(): Promise<number> {
    const sizes = await Promise.all(this.#runners.map((runner) => runner.eval(SIZE, [], [])))
    return sizes.reduce<number>((sum, size) => sum + Number(size), 0)
  }

  #nextServer(): boolean {
    this.#server = (this.#server + 1) % this.#runners.length
    return this.#server === 0
  }
}

/** The state of one key under one limit. Durations are in milliseconds. */
export interface Row {
  readonly limiter: string
  readonly key: string
  readonly limit: string
  /** Units in use; `undefined` if the algorithm is not registered here. */
  readonly used: number | undefined
  /** Units that can be used back to back. */
  readonly capacity: number | undefined
  readonly resetAfter: number | undefined
  readonly lockedFor: number
}

/** Keys that are read at once. */
const AT_ONCE = 50

/** The most used keys that were found. It keeps a bounded number of them, and reads these again on each refresh. */
export class Ranking {
  readonly #prefix: string
  readonly #limiter: string | undefined
  readonly #most: number
  readonly #kept = new Map<string, { readonly key: FoundKey; readonly rows: readonly Row[] }>()
  #read = 0

  constructor(prefix: string, limiter: string | undefined, most: number) {
    this.#prefix = prefix
    this.#limiter = limiter
    this.#most = most
  }

  /** How many keys were read, those that were read again included. */
  get read(): number {
    return this.#read
  }

  /** Reads keys, and keeps the most used. */
  readonly add = async (keys: readonly FoundKey[]): Promise<void> => {
    for (let at = 0; at < keys.length; at += AT_ONCE) {
      await Promise.all(keys.slice(at, at + AT_ONCE).map((key) => this.#addOne(key)))
    }
    this.#forget()
  }

  /** Reads the kept keys again. */
  refresh(): Promise<void> {
    return this.add([...this.#kept.values()].map(({ key }) => key))
  }

  /** The rows, the largest share in use first. Locked keys count as fully used. */
  rows(): Row[] {
    return [...this.#kept.values()].flatMap(({ rows }) => rows).toSorted(compare)
  }

  async #addOne(key: FoundKey): Promise<void> {
    const named = readRedisKey(this.#prefix, key.name)
    if (named === undefined || (this.#limiter !== undefined && named.limiter !== this.#limiter)) return
    const { limits } = heldOf(key.name, await fetchStored(key.runner, key.name))
    this.#read++
    const rows = limits.map((each) => rowOf(named, each)).filter(isInUse)
    if (rows.length === 0) this.#kept.delete(key.name)
    else this.#kept.set(key.name, { key, rows })
  }

  #forget(): void {
    if (this.#kept.size <= this.#most) return
    const ranked = [...this.#kept].toSorted(([, a], [, b]) => compare(mostUsed(a.rows), mostUsed(b.rows)))
    for (const [name] of ranked.slice(this.#most)) this.#kept.delete(name)
  }
}

function rowOf(named: { limiter: string; key: string }, { limit, verdict, lockedFor }: HeldByLimit): Row {
  return {
    ...named,
    limit,
    used: verdict?.used,
    capacity: verdict?.capacity,
    resetAfter: verdict?.resetAfter,
    lockedFor,
  }
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

/** From 0 to 1; 0 for an unknown algorithm. */
export function shareOf({ used, capacity, lockedFor }: Row): number {
  if (lockedFor > 0) return 1
  if (used === undefined || capacity === undefined) return 0
  return capacity === 0 ? 1 : Math.min(1, used / capacity)
}
