import { LARGEST_TEXT, type SharedTexts, textsIn } from '../stores/texts.ts'
import type { Store } from '../stores/store.ts'
import { background } from '../util/clock.ts'
import { shared } from '../util/copies.ts'
import { messageOf } from '../util/errors.ts'
import type { Member } from './sums.ts'
import { readSummary, type Summary, writeSummary } from './summary.ts'

/** What the texts of a fleet are named in a database: `sluice::fleet` in Redis, `fleet <process>` in a table. */
export const TOPIC = 'fleet'
export const MOST_PROCESSES = 100
/** The text that says that somebody looks, and the milliseconds for which it says so. */
const LOOK = 'look'
const LOOK_LASTS = 10_000
/** Milliseconds between two summaries while somebody looks, and otherwise, and between two looks at whether somebody does. */
const OFTEN = 2000
const SELDOM = 30_000
const CHECK = 5000
/** Milliseconds for which a summary is kept. */
export const LASTS = 45_000
/** Milliseconds after the last request of a page until nobody looks. */
const LOOKS = 10_000
/** Milliseconds before the first summary, so that a process that ends at once writes none. */
const FIRST = 500
/** Milliseconds for which a page waits for what the other processes have written. */
const PATIENCE = 500
/** Milliseconds of failures that are no problem yet, such as a file that is in use. */
const TOLERANCE = 5000

export interface Found {
  readonly members: readonly Member[]
  /** Texts that are no summaries of this version. */
  readonly unread: number
  /** True if there are more processes than are shown. */
  readonly isCut: boolean
}

/** Reads the summaries of all processes, and tells them that somebody looks. */
export async function readFleet(texts: SharedTexts): Promise<Found> {
  await texts.keep(LOOK, LOOK_LASTS, '')
  // One is the text that somebody looks, and one more says that there are too many.
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
 * Tells other processes what this one does, and reads what they do, through the store that they share. It asks the store for one thing at a time, never
 * for a request, and a failure of the store is only said on the page.
 */
export class Fleet {
  /** Of this process: one for all its dashboards, since each counts all decisions. */
  readonly id: string = own.id
  readonly #summary: (every: number) => Summary
  #texts: SharedTexts | undefined
  #place = ''
  #cancel = (): void => undefined
  #running: Promise<void> | undefined
  #startedAt = 0
  #lookedAt = -Infinity
  #doneAt = -Infinity
  /** Milliseconds until the next summary, as the last one says, and when it was written. */
  #every = 0
  #writtenAt = 0
  #failure = ''
  #found: Found = { members: [], unread: 0, isCut: false }
  #foundAt = 0
  #isClosed = false

  constructor(summary: (every: number) => Summary) {
    this.#summary = summary
  }

  /** Uses a store from now on, if it is shared and the first one. */
  use(store: Store): void {
    if (this.#texts !== undefined || this.#isClosed) return
    this.#texts = textsIn(store, TOPIC)
    if (this.#texts === undefined) return
    this.#place = store.place.name ?? 'the database'
    this.#schedule(FIRST)
  }

  /** Where the processes meet; `''` while no store is shared. */
  get place(): string {
    return this.#place
  }

  /** Why the other processes are not known; `''` if they are. */
  get problem(): string {
    const now = performance.now()
    const waits = this.#running === undefined ? 0 : now - this.#startedAt
    if (waits > TOLERANCE) return `no answer for ${Math.floor(waits / 1000)} s`
    return now - this.#doneAt > TOLERANCE ? this.#failure : ''
  }

  /** What the other processes have written. A process that has written nothing for long is gone. */
  get others(): Found {
    const since = performance.now() - this.#foundAt
    const members = this.#found.members
      .filter(({ id, age }) => id !== this.id && age + since < LASTS)
      .map(({ id, age, summary }) => ({ id, age: age + since, summary }))
    return { ...this.#found, members }
  }

  /** Somebody looks. Resolves when the others are known, or after half a second. */
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

  /** Stops, and takes this process off the list. */
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

  /** Returns the milliseconds until the next one. */
  async #exchange(texts: SharedTexts): Promise<number> {
    const isLooked = this.#isLooked
    const every = isLooked || (await texts.read(1, LOOK)).length > 0 ? OFTEN : SELDOM
    // A summary is not late: the next look is only after this time.
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
