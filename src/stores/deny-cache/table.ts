import { copyText } from '../../util/copy-text.ts'
import type { Charge } from '../store.ts'
import type { Verdict } from './verdict.ts'

/** Verdicts of one key, for requests of different costs. */
const MOST_COSTS = 4

/** What is known of one key under one version of a limit. */
interface Known {
  readonly version: string
  /** The newest one comes first. */
  readonly verdicts: readonly Verdict[]
}

/**
 * The verdicts of one limit, by key: at most `maxKeys` keys, in two halves. When the younger half is full, or a `maxAge` old, the
 * older half is dropped. No verdict is older than `maxAge`, so only a full table drops verdicts that are still valid.
 */
export class Table {
  /** The first version of the limit that was seen. */
  readonly version: string
  /** True when the limit was seen in several versions. */
  isMixed = false
  /** Requests in flight that were sent before that. */
  untracked = 0
  readonly #half: number
  readonly #maxAge: number
  #younger = new Map<string, Known>()
  #older = new Map<string, Known>()
  #since = -Infinity

  constructor(version: string, maxKeys: number, maxAge: number) {
    this.version = version
    this.#half = Math.floor(maxKeys / 2)
    this.#maxAge = maxAge
  }

  find({ key, cost }: Charge, version: string, now: number): Verdict | undefined {
    const verdicts = this.of(key, version)
    if (verdicts === undefined) return undefined
    for (const verdict of verdicts) if (verdict.cost === cost) return verdict.holdsAt(now) ? verdict : undefined
    return undefined
  }

  /** Returns the verdicts of a key, if there are any. */
  of(key: string, version: string): readonly Verdict[] | undefined {
    const known = this.#younger.get(key) ?? this.#older.get(key)
    return known?.version === version ? known.verdicts : undefined
  }

  /** Adds the newest verdict of a key, if it is valid. Drops older verdicts that it contradicts. */
  add(key: string, version: string, verdict: Verdict, now: number): void {
    const others = this.of(key, version)?.filter((each) => agrees(each, verdict)) ?? []
    this.forget(key)
    if (verdict.holdsAt(now)) this.#turn(now)
    const verdicts = verdict.holdsAt(now) ? [verdict, ...others.slice(0, MOST_COSTS - 1)] : others
    if (verdicts.length > 0) this.#younger.set(copyText(key), { version, verdicts })
  }

  /** Replaces the verdicts of a key that is known. */
  replace(key: string, version: string, verdicts: readonly Verdict[]): void {
    const half = this.#younger.has(key) ? this.#younger : this.#older
    if (verdicts.length === 0) half.delete(key)
    else half.set(key, { version, verdicts })
  }

  dropDenials(key: string): void {
    const known = this.#younger.get(key) ?? this.#older.get(key)
    if (known === undefined) return
    const allowed = known.verdicts.filter((verdict) => verdict.allowed)
    this.replace(key, known.version, allowed)
  }

  forget(key: string): void {
    this.#younger.delete(key)
    this.#older.delete(key)
  }

  clear(): void {
    this.#younger.clear()
    this.#older.clear()
  }

  #turn(now: number): void {
    const age = now - this.#since
    if (this.#younger.size < this.#half && age >= 0 && age < this.#maxAge) return
    this.#older = this.#younger
    this.#younger = new Map()
    this.#since = now
  }
}

/** False for a verdict that a newer one replaces or may contradict. */
function agrees({ cost, allowed }: Verdict, newer: Verdict): boolean {
  return cost !== newer.cost && allowed === newer.allowed
}
