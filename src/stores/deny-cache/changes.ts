/** What is known of the requests that may change a state. */
interface Note {
  /** The version of the limit that they use; undefined for a request that is no decision. */
  version: string | undefined
  inFlight: number
  /** True from the begin of a change to the end of all requests in flight. */
  isOpen: boolean
  /** When the last change ended, in the order of all changes. */
  endedAt: number
}

/** The most notes that are kept when no request is in flight. */
const MOST_NOTES = 10_000

/**
 * The changes that may lift a denial. It says whether a reply is older than a change: the store may have decided before the
 * change, although the reply came later. Its size is bounded: without a note, a reply counts as older.
 */
export class Changes {
  readonly #notes = new Map<string, Note>()
  #mostNotes = MOST_NOTES
  #time = 0
  /** Before this time notes are missing. */
  #since = 0

  /** Counts the changes: the time at which a request is sent. */
  get time(): number {
    return this.#time
  }

  get size(): number {
    return this.#notes.size
  }

  /** Notes that a request is sent. It is a change if requests for other versions, or for none, came before it. */
  begin(place: string, version?: string): void {
    const note = this.#notes.get(place) ?? this.#add(place, version)
    if (version === undefined || version !== note.version) note.isOpen = true
    note.version = version
    note.inFlight++
  }

  /** Notes the end of a request. */
  end(place: string): void {
    const note = this.#notes.get(place)!
    note.inFlight--
    if (!note.isOpen || note.inFlight > 0) return
    note.isOpen = false
    note.endedAt = ++this.#time
  }

  /** True if nothing has changed since `sent`, and no change is in flight. */
  isUnchanged(place: string, sent: number): boolean {
    if (sent < this.#since) return false
    const note = this.#notes.get(place)
    return note === undefined || (!note.isOpen && note.endedAt <= sent)
  }

  #add(place: string, version: string | undefined): Note {
    if (this.#notes.size >= this.#mostNotes) this.#dropIdle()
    const note: Note = { version, inFlight: 0, isOpen: false, endedAt: 0 }
    this.#notes.set(place, note)
    return note
  }

  /** Twice what is left may be added before the next time, so that the time for it is shared by as many. */
  #dropIdle(): void {
    for (const [place, { inFlight }] of this.#notes) if (inFlight === 0) this.#notes.delete(place)
    this.#mostNotes = Math.max(MOST_NOTES, 2 * this.#notes.size)
    this.#since = ++this.#time
  }
}
