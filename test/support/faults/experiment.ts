import { setTimeout as pause } from 'node:timers/promises'
import {
  type AsyncStore,
  createLimiter,
  fixedWindow,
  guard,
  type Limiter,
  type StoreChange,
} from '../../../src/index.ts'
import { type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'
import type { Fault, Times } from './faults.ts'
import { type Watch, watch } from './leaks.ts'
import { type Place, type PlaceKind, startPlace } from './place.ts'

/** Milliseconds: the longest time to wait for a recovery, and between two requests of the load. */
const LONGEST = 15_000
const EVERY = 5

/** The quota that the load uses up, and one that it never does. */
const SMALL = 100
const LARGE = 1_000_000
/** The part of the quota that the guard admits by itself. */
const SHARE = 0.5

/** A connected client, and a function that closes it. */
interface Opened {
  readonly client: unknown
  /** Counts in the place. Default: a store of the client, which is one of Redis. */
  readonly store?: AsyncStore
  close(): void | Promise<void>
}

type Open = (port: number, password?: string) => Promise<Opened>

/** A kind of clients, and how each is opened in the places for which it is made. */
export type Family = { readonly name: string } & Readonly<Partial<Record<PlaceKind, Open>>>

export interface Options extends Times {
  readonly fault: Fault
  readonly family: Family
  readonly kind: PlaceKind
}

/** One decision. Times are in milliseconds; `at` is of `performance.now()`. */
export interface Sample {
  readonly at: number
  readonly ms: number
  readonly allowed: boolean
  readonly degraded: string | undefined
  /** Asked while the guard was open. */
  readonly isLater: boolean
}

/** What an experiment has shown. Times are in milliseconds. */
export interface Figures {
  /** The slowest decision of those asked for before the guard opened. */
  readonly first: number
  /** The median and the slowest hundredth of the decisions while the guard was open. */
  readonly later: number | undefined
  readonly latest: number | undefined
  /** From the end of the fault until Redis decides again; `undefined` if it never stopped to. `Infinity`: not in time. */
  readonly recovery: number | undefined
  /** What the small quota has admitted, and the most that the documents allow. A perfect limiter admits `perfect`. */
  readonly admitted: number
  readonly allowance: number
  readonly perfect: number
  /** All decisions, and those made without Redis. */
  readonly decisions: number
  readonly degraded: number
  /** Units that Redis has counted too many, of requests whose answers were lost. */
  readonly kept: number
  /** Requests that the client had when they were decided without Redis. */
  readonly handed: number
  /** Units that Redis has counted for requests which came while the guard was open. */
  readonly charged: number
  /** How much the queue of the client grew while the guard was open, where the client shows it. */
  readonly queued: number | undefined
  readonly errors: readonly string[]
  readonly leaks: readonly string[]
  readonly rejections: number
}

/** The begin and the end of a fault, or a change that the guard has reported. `at` is of `performance.now()`. */
export interface Event {
  readonly at: number
  readonly what: 'begin' | 'end' | StoreChange['state']
}

/** The figures of an experiment, and the decisions behind them. */
export interface Result {
  readonly figures: Figures
  readonly samples: readonly Sample[]
  readonly events: readonly Event[]
}

/** Sets up a place, applies load during a fault, and returns what happened. */
export async function experiment(options: Options): Promise<Result> {
  const place = await startPlace(options.kind, options.fault)
  try {
    const watched = watch()
    try {
      return await new Experiment(options, place, watched).run()
    } finally {
      watched.stop()
    }
  } finally {
    place.disconnectAdmins()
    await place.stop()
  }
}

interface Asked {
  readonly large: Sample[]
  readonly small: Sample[]
}

class Experiment {
  readonly #options: Options
  readonly #place: Place
  readonly #watched: Watch
  readonly #changes: (StoreChange & { readonly at: number })[] = []
  readonly #asked: Asked = { large: [], small: [] }
  readonly #errors: string[] = []
  #pending = 0
  #began = 0
  #ended = 0
  #queues: number[] = []

  constructor(options: Options, place: Place, watched: Watch) {
    this.#options = options
    this.#place = place
    this.#watched = watched
  }

  async run(): Promise<Result> {
    const { fault, family, kind, deadline } = this.#options
    const place = this.#place
    await place.connectAdmins()
    await fault.prepare?.(place)
    if (fault.isAtStart === true) await fault.begin(place, this.#options)
    const { client, store: counting, close } = await family[kind]!(place.port, fault.password)
    const onChange = (change: StoreChange): void => void this.#changes.push({ ...change, at: performance.now() })
    const store = guard(counting ?? redisStore(client as RedisClient), { deadline, localShare: SHARE, onChange })
    const [large, small, idle] = [LARGE, SMALL, LARGE].map((quota, i) =>
      createLimiter<string>({
        name: ['large', 'small', 'idle'][i]!,
        keyer: (name) => `{${place.tag}}${name}`,
        limits: fixedWindow({ quota, window: '1d' }),
        store,
      }),
    ) as [Limiter<string>, Limiter<string>, Limiter<string>]
    if (fault.isAtStart !== true) await this.#connected(large)

    const listeners = this.#watched.listeners(client)
    const load = setInterval(() => {
      if (this.#isOpen) {
        this.#queues.push(queueOf(client) ?? -1)
        this.#ask(idle, [])
      }
      this.#ask(large, this.#asked.large)
      this.#ask(small, this.#asked.small)
    }, EVERY)
    await this.#goThrough()
    clearInterval(load)
    await until(() => this.#pending === 0)
    const kept = await this.#kept(large)
    const charged = await countedBy(idle)
    const after = this.#watched.listeners(client)
    await store.close()
    await close()
    place.disconnectAdmins()
    await until(() => this.#watched.leaks().length === 0)
    const isSame = listeners.join() === after.join() || fault.isAtStart === true
    const leaks = [...this.#leaks(), ...(isSame ? [] : ['listener'])]
    return { figures: { ...this.#figures(), kept, charged, leaks }, samples: this.#samples(), events: this.#events() }
  }

  /** True while the guard sends nothing. */
  get #isOpen(): boolean {
    return (this.#changes.at(-1)?.state ?? 'healthy') !== 'healthy'
  }

  /** Waits until the client and the functions are there. */
  async #connected(limiter: Limiter<string>): Promise<void> {
    await eventually(async () => (await limiter.consume('connect')).degraded === undefined && !this.#isOpen)
    for (let i = 0; i < 20; i++) {
      await limiter.consume('connect')
      await pause(EVERY)
    }
    await until(() => !this.#isOpen)
    this.#changes.length = 0
  }

  async #goThrough(): Promise<void> {
    const { fault, lasts, around } = this.#options
    if (fault.isAtStart !== true) await pause(around)
    await until(() => fault.isAtStart === true || !this.#isOpen, LONGEST)
    this.#began = performance.now()
    if (fault.isAtStart !== true) await fault.begin(this.#place, this.#options)
    await pause(Math.max(0, this.#began + lasts - performance.now()))
    await fault.end(this.#place)
    this.#ended = performance.now()
    await until(() => !this.#isOpen, LONGEST)
    await pause(around)
    await until(() => !this.#isOpen, LONGEST)
  }

  #ask(limiter: Limiter<string>, samples: Sample[]): void {
    const since = performance.now()
    const isLater = this.#isOpen
    this.#pending++
    const done = ({ allowed, degraded }: Awaited<ReturnType<Limiter<string>['consume']>>): void => {
      this.#pending--
      samples.push({ at: since, ms: performance.now() - since, allowed, degraded, isLater })
    }
    const failed = (error: unknown): void => {
      this.#pending--
      this.#errors.push(String(error))
    }
    Promise.resolve(limiter.consume('key')).then(done, failed)
  }

  /** Returns the units that Redis has counted too many, once the late ones are given back. */
  async #kept(limiter: Limiter<string>): Promise<number> {
    const isForgotten = this.#options.fault.forgets === true
    const emptied = this.#options.fault.effect === 'outage' ? this.#ended : this.#began
    const own = this.#asked.large.filter(
      ({ at, ms, allowed, degraded }) => allowed && degraded === undefined && (!isForgotten || at + ms > emptied),
    ).length
    let kept = Infinity
    await eventually(async () => {
      kept = (await countedBy(limiter)) - own
      return kept <= 0
    }, 2000)
    // Where a server forgets, an answer may have been on its way.
    return isForgotten ? Math.max(0, kept) : kept
  }

  #leaks(): string[] {
    return [...this.#watched.leaks(), ...(this.#pending === 0 ? [] : [`${this.#pending} promises`])]
  }

  #figures(): Omit<Figures, 'kept' | 'charged' | 'leaks'> {
    const { fault } = this.#options
    const samples = this.#samples()
    const during = samples.filter(({ at }) => at >= this.#began && at < this.#ended)
    const later = during.filter(({ isLater }) => isLater).map(({ ms }) => ms)
    const handed = this.#asked.large.filter(({ isLater, degraded }) => !isLater && degraded !== undefined).length
    return {
      first: Math.max(0, ...during.filter(({ isLater }) => !isLater).map(({ ms }) => ms)),
      later: percentile(later, 0.5),
      latest: percentile(later, 0.99),
      recovery: this.#recovery(),
      admitted: this.#asked.small.filter(({ allowed }) => allowed).length,
      allowance: SMALL * (1 + SHARE + (fault.forgets === true && fault.isAtStart !== true ? 1 : 0)),
      perfect: SMALL,
      decisions: samples.length,
      degraded: samples.filter(({ degraded }) => degraded !== undefined).length,
      handed,
      queued: this.#queued(),
      errors: this.#errors,
      rejections: this.#watched.rejections(),
    }
  }

  /** All decisions of the load, in the order in which they were asked for. */
  #samples(): Sample[] {
    return [...this.#asked.large, ...this.#asked.small].toSorted((a, b) => a.at - b.at)
  }

  #events(): Event[] {
    const changes = this.#changes.map(({ at, state }) => ({ at, what: state }))
    return [{ at: this.#began, what: 'begin' }, { at: this.#ended, what: 'end' }, ...changes]
  }

  #recovery(): number | undefined {
    const last = this.#changes.at(-1)
    if (last === undefined || last.at < this.#began) return undefined
    return last.state === 'healthy' ? Math.max(0, last.at - this.#ended) : Infinity
  }

  #queued(): number | undefined {
    const known = this.#queues.filter((length) => length >= 0)
    return known.length === 0 ? undefined : Math.max(...known) - known[0]!
  }
}

/** Units that Redis has counted for the key of the load. */
async function countedBy(limiter: Limiter<string>): Promise<number> {
  const { limits, degraded } = await limiter.peek('key', { cost: 0 })
  return degraded === undefined ? LARGE - limits[0]!.remaining : Infinity
}

interface Queues {
  readonly commandQueue?: { readonly length: number }
  readonly offlineQueue?: { readonly length: number }
  nodes?(): readonly Queues[]
}

/** Commands that ioredis or iovalkey have queued. The other clients do not show them. */
function queueOf(client: unknown): number | undefined {
  const { commandQueue, offlineQueue, nodes } = client as Queues
  if (nodes === undefined && commandQueue === undefined) return undefined
  const own = (commandQueue?.length ?? 0) + (offlineQueue?.length ?? 0)
  return (nodes?.call(client) ?? []).reduce((sum, node) => sum + (queueOf(node) ?? 0), own)
}

function percentile(values: readonly number[], part: number): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)]
}

async function until(done: () => boolean, longest = 3000): Promise<void> {
  await eventually(async () => done(), longest)
}

async function eventually(done: () => Promise<boolean>, longest = 5000): Promise<void> {
  const end = performance.now() + longest
  while (!(await done()) && performance.now() < end) await pause(10)
}
