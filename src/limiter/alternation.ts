import type { Limit } from '../limits/limit.ts'
import type { Policy } from '../stores/store.ts'
import { warn } from '../util/warn.ts'

/** Names whose first definition is remembered, and keys that are watched at a time. */
const MOST_NAMES = 1000
const MOST_KEYS = 1000
/** Earlier definitions that are remembered for a key. */
const MOST_DEFINITIONS = 4
/** A key that returns so often to an earlier definition within one window does not only change its plan. */
const RETURNS = 10

/** What one key had under one name. */
interface Watched {
  signature: string
  readonly earlier: string[]
  returns: number
  /** The millisecond of `performance.now()` of the first return that counts. */
  since: number
}

/**
 * Notices when a function returns different limits with the same name in turn for one key, and warns once. A denial by the smaller quota
 * reduces the usage to that quota, so the larger one would deny almost nothing.
 */
export class AlternationWatch {
  readonly #limiter: string
  readonly #definitions = new Map<string, string>()
  readonly #keys = new Map<string, Watched>()
  #isActive = false
  #isWarned = false

  constructor(limiter: string) {
    this.#limiter = limiter
  }

  /** Notes a definition. Keys are watched from the second one of any name on. */
  define({ limit: { name }, compiled: { signature } }: Policy): void {
    const known = this.#definitions.get(name)
    if (known === undefined && this.#definitions.size < MOST_NAMES) this.#definitions.set(name, signature)
    else if (known !== undefined && known !== signature) this.#isActive = !this.#isWarned
  }

  /** Notes the limits of a request. */
  note(policies: readonly Policy[], key: string): void {
    if (!this.#isActive) return
    for (const { limit, compiled } of policies) {
      const place = `${limit.name}\0${key}`
      const watched = this.#keys.get(place)
      if (watched === undefined) this.#add(place, compiled.signature)
      else if (watched.signature !== compiled.signature) this.#change(watched, compiled.signature, limit)
    }
  }

  #add(place: string, signature: string): void {
    if (this.#keys.size === MOST_KEYS) this.#keys.delete(this.#keys.keys().next().value!)
    this.#keys.set(place, { signature, earlier: [], returns: 0, since: 0 })
  }

  #change(watched: Watched, signature: string, { name, window }: Limit): void {
    if (watched.earlier.includes(signature)) countReturn(watched, window)
    if (!watched.earlier.includes(watched.signature) && watched.earlier.length < MOST_DEFINITIONS)
      watched.earlier.push(watched.signature)
    watched.signature = signature
    if (watched.returns === RETURNS) this.#warn(name)
  }

  #warn(name: string): void {
    this.#isWarned = true
    this.#isActive = false
    this.#keys.clear()
    warn(
      'SLUICE_ALTERNATING_LIMITS',
      `Limiter "${this.#limiter}" has different limits with the name "${name}" in turn for one key. They share one usage, and each denial by ` +
        'the smaller quota reduces it to that quota, so the larger quota denies almost nothing. Give each of them its own `name`.',
    )
  }
}

function countReturn(watched: Watched, window: number): void {
  const now = performance.now()
  const isOver = watched.returns === 0 || now - watched.since > window
  if (isOver) watched.since = now
  watched.returns = isOver ? 1 : watched.returns + 1
}
