import { LARGEST_TEXT, type SharedTexts, textsIn } from '../stores/texts.ts'
import type { Store } from '../stores/store.ts'
import { background } from '../util/clock.ts'
import { shared } from '../util/copies.ts'
import { messageOf } from '../util/errors.ts'
import type { Member } from './sums.ts'
import { readSummary, type Summary, writeSummary } from './summary.ts'

/** The name for the texts of a fleet in a database: `sluice::fleet` in Redis, `fleet <process>` in a table. */
export const TOPIC = 'fleet'
export const MOST_PROCESSES = 100
/** The name of the text that shows that somebody looks at a page, and how long this text is kept, in milliseconds. */
const LOOK = 'look'
const LOOK_LASTS = 10_000
/** Milliseconds between two summaries while somebody looks, between two summaries otherwise, and between two checks if somebody looks. */
const OFTEN = 2000
const SELDOM = 30_000
const CHECK = 5000
/** How long a summary is kept, in milliseconds. */
export const LASTS = 45_000
/** Milliseconds after the last request of a page. Then nobody looks any more. */
const LOOKS = 10_000
/** Milliseconds before the first summary, so that a process that ends at once writes none. */
const FIRST = 500
/** How long a page waits for the summaries of other processes, in milliseconds. */
const PATIENCE = 500
/** How long failures are not reported, in milliseconds. A file may be in use for a short time. */
const TOLERANCE = 5000

export interface Found {
  readonly members: readonly Member[]
  /** The number of texts that are not summaries of this version. */
  readonly unread: number
  /** True if there are more processes than are shown. */
  readonly isCut: boolean
}

/** Reads the summaries of all processes, and shows them that somebody looks. */
export async function readFleet(texts: SharedTexts): Promise<Found> {
  await texts.keep(LOOK, LOOK_LASTS, '')
  // One text shows that somebody looks. One more text shows that there are too many processes.
  const kept = (await texts.read(MOST_PROCESSES + 2)).filter(({ name }) => name !== LOOK)
  const shown = kept.slice(0, MOST_PROCESSES)
  const members = shown.flatMap(({ name: id, age, text }) => {
    const summary = text.length > LARGEST_TEXT ? undefined : readSummary(text)
    return summary === undefined || !Number.isFinite(age) ? [] : [{ id, age, summary }]
  })
  return { members, unread: shown.length - members.length, isCut: kept.length > shown.length }
}

const own = shared('process of a fleet', () => ({ id: crypto.randomUUID() }))

/**
 * Writes the summary of this process to the shared store, and reads the summaries of other processes there. It sends one request to the store at a
 * time. Requests of clients never wait for it, and a failure of the store is only shown on the page.
 */
export class Fleet {
  /** The id of this process. All its dashboards have the same id, because each of them counts all decisions. */
  readonly id: string = own.id
  readonly #summary: (every: number) => Summary
  #texts: SharedTexts | undefined
  #place = ''
  #cancel = (): void => undefined
  #running: Promise<void> | undefined
  #startedAt = 0
  #lookedAt = -Infinity
  #doneAt = -Infinity
  /** The milliseconds until the next summary, as written in the last one, and the time when the last one was written. */
  #every = 0
  #writtenAt = 0
  #failure = ''
  #found: Found = { members: [], unread: 0, isCut: false }
  #foundAt = 0
  #isClosed = false

  constructor(summary: (every: number) => Summary) {
    this.#summary = summary
  }

  /** Uses a store from now on, if it is the first shared store. */
  use(store: Store): void {
    if (this.#texts !== undefined || this.#isClosed) return
    this.#texts = textsIn(store, TOPIC)
    if (this.#texts === undefined) return
    this.#place = store.place.name ?? 'the database'
    this.#schedule(FIRST)
  }

  /** The place of the shared store. `''` while there is none. */
  get place(): string {
    return this.#place
  }

  /** Why the other processes are not known. `''` if they are known. */
  get problem(): string {
    const now = performance.now()
    const waits = this.#running === undefined ? 0 : now - this.#startedAt
    if (waits > TOLERANCE) return `no answer for ${Math.floor(waits / 1000)} s`
    return now - this.#doneAt > TOLERANCE ? this.#failure : ''
  }

  /** The summaries of other processes. A process that has not written for 45 seconds is left out. */
  get others(): Found {
    const since = performance.now() - this.#foundAt
    const members = this.#found.members
      .filter(({ id, age }) => id !== this.id && age + since < LASTS)
      .map(({ id, age, summary }) => ({ id, age: age + since, summary }))
    return { ...this.#found, members }
  }

  /** Notes that somebody looks. Resolves when the other processes are known, or after half a second. */
  async look(): Promise<void> {
    const wasIdle = !this.#isLooked
    this.#lookedAt = performance.now()
    if (this.#texts === undefined) return
    if (wasIdle) void this.#run()
    let end = (): void => undefined
    const over = new Promise<void>((resolve) => (end = background(PATIENCE, resolve)))
    await Promise.race([this.#running, over])
    end()
  }

  /** Stops, and removes this process from the list. */
  close(): void {
    this.#isClosed = true
    this.#cancel()
    const over = Promise.resolve(this.#running)
    void over.then(() => this.#texts?.keep(this.id, 0, '')).catch(() => undefined)
  }

  get #isLooked(): boolean {
    return performance.now() - this.#lookedAt < LOOKS
  }

  #schedule(ms: number): void {
    this.#cancel()
    this.#cancel = background(ms, () => void this.#run())
  }

  #run(): Promise<void> {
    this.#startedAt = this.#running === undefined ? performance.now() : this.#startedAt
    this.#running ??= this.#tryExchange(this.#texts!)
    return this.#running
  }

  async #tryExchange(texts: SharedTexts): Promise<void> {
    let every = OFTEN
    try {
      every = await this.#exchange(texts)
      this.#failure = ''
      this.#doneAt = performance.now()
    } catch (error) {
      this.#failure = messageOf(error)
    }
    this.#running = undefined
    if (!this.#isClosed) this.#schedule(every)
  }

  /** Writes the summary and reads the others, if needed. Returns the milliseconds until the next exchange. */
  async #exchange(texts: SharedTexts): Promise<number> {
    const isLooked = this.#isLooked
    const every = isLooked || (await texts.read(1, LOOK)).length > 0 ? OFTEN : SELDOM
    // A summary must be written now if it would be late at the next check.
    const isFresh = performance.now() - this.#writtenAt < SELDOM - CHECK
    if (every === OFTEN || every !== this.#every || !isFresh) {
      await texts.keep(this.id, LASTS, writeSummary(this.#summary(every)))
      this.#every = every
      this.#writtenAt = performance.now()
    }
    if (!isLooked) return Math.min(every, CHECK)
    this.#found = await readFleet(texts)
    this.#foundAt = performance.now()
    return every
  }
}
