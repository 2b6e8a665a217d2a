import type { ServerResponse } from 'node:http'
import type { RulesEvent, RulesInEvent } from '../rules/rules.ts'
import type { StoreEvent, StoreState as GuardedState } from '../stores/guard/index.ts'
import { isCharge, type LimitStatus, type Store } from '../stores/store.ts'
import { channel } from '../util/channel.ts'
import { decisions } from '../limiter/decision.ts'
import { topDenied, type TopDenied } from '../metrics/top-denied.ts'
import { type Clock, steadyClock } from '../util/clock.ts'
import { Counters } from './counters.ts'

/** Milliseconds between two messages. */
const EVERY = 100
/** The most visitors at a time. */
export const MOST_VISITORS = 20
/** A visitor that reads nothing for so many milliseconds is disconnected. */
const LONGEST_STALL = 10_000
/** A stream ends after so many milliseconds. The page connects again, and the visitor is authorized again. */
const LONGEST_STREAM = 600_000

/** What the messages say. */
interface Source {
  /** Returns everything, for a visitor that has nothing. */
  whole(): string
  /** Returns what has changed since the last call, or `undefined` if there is nothing to send yet. */
  changes(): string | undefined
}

/** Calls a function every 100 ms, without keeping the process alive. Returns a function that stops it. */
type Ticker = (tick: () => void) => () => void

function everyTick(tick: () => void): () => void {
  const timer = setInterval(tick, EVERY).unref()
  return () => clearInterval(timer)
}

interface Visitor {
  readonly response: ServerResponse
  readonly until: number
  /** When its connection last took a message whole. */
  readyAt: number
  /** True while the last message is still in the buffer of the connection. */
  isFull: boolean
  /** True if it was not sent a message, so that it needs everything again. */
  hasMissed: boolean
}

/**
 * Sends messages to all visitors as server-sent events, at most ten a second, each made once for all. What waits for a visitor is
 * bounded: while its connection is full it is sent nothing, and after that everything. No timer runs without a visitor.
 */
export class Feed {
  readonly #source: Source
  readonly #visitors = new Set<Visitor>()
  readonly #ticker: Ticker
  #stop: (() => void) | undefined

  constructor(source: Source, ticker: Ticker = everyTick) {
    this.#source = source
    this.#ticker = ticker
  }

  get visitors(): number {
    return this.#visitors.size
  }

  /** Sends events over a response until one side ends it. Returns false, and does nothing, if there are too many visitors. */
  open(response: ServerResponse, headers: Readonly<Record<string, string>>): boolean {
    if (this.#visitors.size >= MOST_VISITORS) return false
    if (this.#visitors.size === 0) this.#source.changes()
    const now = performance.now()
    const visitor: Visitor = {
      response,
      until: now + LONGEST_STREAM,
      readyAt: now,
      isFull: false,
      hasMissed: false,
    }
    this.#visitors.add(visitor)
    response.on('drain', () => {
      visitor.isFull = false
    })
    response.on('close', () => this.#remove(visitor))
    response.writeHead(200, { ...headers, 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' })
    this.#write(visitor, eventOf(this.#source.whole()))
    this.#stop ??= this.#ticker(() => this.#send())
    return true
  }

  /** Ends all streams. */
  close(): void {
    for (const visitor of this.#visitors) {
      visitor.response.end()
      this.#remove(visitor)
    }
  }

  #remove(visitor: Visitor): void {
    this.#visitors.delete(visitor)
    if (this.#visitors.size > 0) return
    this.#stop?.()
    this.#stop = undefined
  }

  #send(): void {
    const changes = this.#source.changes()
    if (changes === undefined) return
    const message = eventOf(changes)
    let everything: string | undefined
    const now = performance.now()
    for (const visitor of this.#visitors) {
      if (visitor.isFull) this.#skip(visitor, now)
      else if (now > visitor.until) visitor.response.end()
      else if (visitor.hasMissed) this.#write(visitor, (everything ??= eventOf(this.#source.whole())))
      else this.#write(visitor, message)
    }
  }

  #skip(visitor: Visitor, now: number): void {
    visitor.hasMissed = true
    if (now - visitor.readyAt > LONGEST_STALL) visitor.response.destroy()
  }

  #write(visitor: Visitor, event: string): void {
    visitor.hasMissed = false
    visitor.isFull = !visitor.response.write(event)
    visitor.readyAt = performance.now()
  }
}

/** JSON has no line breaks, so it is one line of data. */
function eventOf(data: string): string {
  return `data: ${data}\n\n`
}

/** The most stores and the most rules that are shown. */
const MOST_STATES = 20
/** Longer texts are cut. */
const LONGEST_TEXT = 300

/** The state of a store as the page shows it. */
interface StoreState {
  readonly name: string
  readonly state: GuardedState
  readonly reason: string
  /** When it changed, in epoch milliseconds; `undefined` if it has not changed since the dashboard was created. */
  readonly since: number | undefined
}

/** Rules as the page shows them. */
interface RulesState {
  readonly version: number
  readonly policies: number
  /** When they came into force, in epoch milliseconds. */
  readonly loadedAt: number
  /** What is wrong with a newer document, or with its source; `''` if nothing is. */
  readonly problem: string
}

const storeChannel = channel<StoreEvent>('sluice:store')
const rulesChannel = channel<RulesEvent>('sluice:rules')

/** Follows the states of stores and rules of the process until it is closed. Those that are not given are found by their events. */
export class States {
  readonly #stores = new Map<object, StoreState>()
  /** The limiters that count in each store: a store without a name is shown by them. */
  readonly #users = new WeakMap<object, Set<string>>()
  readonly #rules = new Map<RulesInEvent, string>()

  constructor(stores: Readonly<Record<string, Store>>, rules: readonly RulesInEvent[]) {
    for (const [name, store] of Object.entries(stores))
      this.#stores.set(store.place, { name, state: 'healthy', reason: '', since: undefined })
    for (const each of rules) this.#rules.set(each, '')
    storeChannel.subscribe(this.#storeChanged)
    rulesChannel.subscribe(this.#rulesChanged)
  }

  get stores(): StoreState[] {
    return Array.from(this.#stores, ([place, state]) => {
      const users = [...(this.#users.get(place) ?? [])].join(', ').slice(0, LONGEST_TEXT)
      return state.name === '' ? { ...state, name: users === '' ? 'a store' : `the store of ${users}` } : state
    })
  }

  /** Notes in which store a limiter counts. */
  note(status: LimitStatus): void {
    if (!isCharge(status)) return
    const place = status.policy.store.place
    const users = this.#users.get(place) ?? new Set<string>()
    if (users.size < MOST_STATES) this.#users.set(place, users.add(status.limiter))
  }

  get rules(): RulesState[] {
    return Array.from(this.#rules, ([{ current }, problem]) => {
      const { version, policies, loadedAt } = current
      return { version, policies: policies.length, loadedAt, problem }
    })
  }

  close(): void {
    storeChannel.unsubscribe(this.#storeChanged)
    rulesChannel.unsubscribe(this.#rulesChanged)
  }

  readonly #storeChanged = ({ store, state, reason }: StoreEvent): void => {
    const place = store.place
    const { name } = this.#stores.get(place) ?? { name: '' }
    if (!this.#stores.has(place) && this.#stores.size >= MOST_STATES) return
    this.#stores.set(place, { name, state, reason: reason.slice(0, LONGEST_TEXT), since: Date.now() })
  }

  readonly #rulesChanged = (event: RulesEvent): void => {
    if (!this.#rules.has(event.rules) && this.#rules.size >= MOST_STATES) return
    this.#rules.set(event.rules, problemIn(event).slice(0, LONGEST_TEXT))
  }
}

function problemIn(event: RulesEvent): string {
  if (event.event === 'change' || event.event === 'recovered') return ''
  if (event.event === 'invalid') {
    const { length } = event.problems
    return `A new document has ${length} ${length === 1 ? 'mistake' : 'mistakes'}. The current rules stay.`
  }
  return 'The source cannot be read. The current rules stay.'
}

/** The keys in the list of those that were denied most. */
const TOP = 10
/** Milliseconds between two looks at the list, at the states and at the time, while nothing else changes. */
const SLOW = 1000

/** Everything the page shows that changes by itself, as JSON. It counts from its creation until it is closed. */
export class Live implements Source {
  readonly #counters: Counters
  readonly #states: States
  readonly #top: TopDenied
  readonly #names: readonly string[]
  readonly #clock: Clock
  readonly #count: Parameters<typeof decisions.subscribe>[0]
  readonly #since: number
  #nextSlow = 0
  #sentSlow = ''

  /** @param names the limiters whose keys one can look up */
  constructor(states: States, names: readonly string[], clock: Clock = steadyClock) {
    this.#clock = clock
    this.#states = states
    this.#names = names
    this.#since = clock.now()
    this.#counters = new Counters(clock, (status) => states.note(status))
    this.#top = topDenied({ size: TOP, window: '10m', clock })
    this.#count = (event) => this.#counters.count(event)
    decisions.subscribe(this.#count)
  }

  whole(): string {
    const now = this.#clock.now()
    return JSON.stringify({
      now,
      since: this.#since,
      whole: true,
      names: this.#names,
      series: this.#counters.whole(),
      rows: [],
      ...this.#slow(),
    })
  }

  changes(): string | undefined {
    const now = this.#clock.now()
    const { series, rows } = this.#counters.changes()
    const isDue = now >= this.#nextSlow || series.length > 0
    if (!isDue && series.length === 0 && rows.length === 0) return undefined
    return JSON.stringify({ now, series, rows, ...(isDue && this.#slowChanges(now)) })
  }

  close(): void {
    decisions.unsubscribe(this.#count)
    this.#top.close()
    this.#states.close()
  }

  #slowChanges(now: number): object {
    this.#nextSlow = now + SLOW
    const slow = this.#slow()
    const text = JSON.stringify(slow)
    if (text === this.#sentSlow) return {}
    this.#sentSlow = text
    return slow
  }

  #slow(): object {
    const { stores, rules } = this.#states
    return { top: this.#top.list(), stores, rules, words: this.#counters.words() }
  }
}
