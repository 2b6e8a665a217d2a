const MOST_KEYS = 1000
/** The largest number of earlier definitions that are remembered for a key. */
const MOST_DEFINITIONS = 4
/** The number of returns to an earlier definition, within one window, that is too high for a change of plan. */
const RETURNS = 10

interface Watched {
  signature: string
  readonly earlier: string[]
  returns: number
  /** The time of the first return that counts, from `performance.now()`. */
  since: number
}

/** A limit that a function has returned. */
interface Definition {
  readonly limit: { readonly name: string; readonly window: number }
  readonly compiled: { readonly signature: string }
}

/**
 * Notices when a function alternates between different limits with the same name for one key. The limits share one usage. If their window or
 * algorithm differs, each change forgets a part of the usage.
 */
export class AlternationWatch {
  readonly #keys = new Map<string, Watched>()
  readonly #found: (limit: string) => void

  /** @param found is called with the name of a limit. After this, do not call `note` any more */
  constructor(found: (limit: string) => void) {
    this.#found = found
  }

  note(definitions: readonly Definition[], key: string): void {
    for (const { limit, compiled } of definitions) {
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

  #change(watched: Watched, signature: string, { name, window }: Definition['limit']): void {
    if (watched.earlier.includes(signature)) countReturn(watched, window)
    if (!watched.earlier.includes(watched.signature) && watched.earlier.length < MOST_DEFINITIONS)
      watched.earlier.push(watched.signature)
    watched.signature = signature
    if (watched.returns === RETURNS) this.#found(name)
  }
}

function countReturn(watched: Watched, window: number): void {
  const now = performance.now()
  const isOver = watched.returns === 0 || now - watched.since > window
  if (isOver) watched.since = now
  watched.returns = isOver ? 1 : watched.returns + 1
}
