import fc from 'fast-check'
import {
  type AsyncStore,
  type Clock,
  createLimiter,
  type Decision,
  denyCache,
  type DenyCacheOptions,
  type Limit,
  type Limiter,
  memoryStore,
  stack,
  type Store,
  type SyncStore,
} from '../../src/index.ts'
import type { Operation } from '../../src/extend.ts'
import { Charge, isDeciding, perform } from '../../src/stores/store.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { limits, names } from './harness.ts'
import { Timeline } from './timeline.ts'
import { type Versions, written } from './traces.ts'

export interface Step {
  readonly process: 0 | 1
  readonly kind: 'consume' | 'peek' | 'refund' | 'settle' | 'reset'
  /** Microseconds before the step. */
  readonly after: number
  readonly key: string
  readonly resource: string
  readonly version: 0 | 1
  readonly cost: number
  /** Which of the earlier decisions of the process is refunded or settled. */
  readonly which: number
  /** Microseconds to the store, and back. */
  readonly trips: readonly [number, number]
  /** True if the next step begins at the end of this one. */
  readonly isAwaited: boolean
}

export interface Trace {
  readonly maxAge: number
  readonly keyed: readonly Versions[]
  readonly shared: readonly Versions[]
  readonly steps: readonly Step[]
}

type Input = Pick<Step, 'key' | 'resource' | 'version'>

const quota = fc.constantFrom(1, 1, 2, 3)
const window = fc.constantFrom(100, 1000, 1001, 7000, 31_536_000_000)
const flags = fc.record({
  strict: fc.constantFrom(false, false, false, false, false, false, false, true),
  shadow: fc.constantFrom(false, false, false, false, false, true),
  block: fc.constantFrom(undefined, undefined, 10, 250, 5000),
})

function version(name: string, algorithm: string): fc.Arbitrary<Limit> {
  return fc.tuple(limits(algorithm, { quota, window }), flags).map(([base, flagged]) => written(name, base, flagged))
}

function versions(name: string): fc.Arbitrary<Versions> {
  const algorithm = fc.constantFrom(...names())
  return algorithm.chain((first) =>
    fc.tuple(
      version(name, first),
      fc.oneof(
        version(name, first),
        algorithm.chain((second) => version(name, second)),
      ),
    ),
  )
}

const trip = fc.constantFrom(0, 0, 1, 800, 10_000)

const step: fc.Arbitrary<Step> = fc.record({
  process: fc.constantFrom(0 as const, 0 as const, 1 as const),
  kind: fc.oneof(
    { weight: 24, arbitrary: fc.constant('consume' as const) },
    { weight: 3, arbitrary: fc.constantFrom('peek' as const, 'refund' as const, 'settle' as const) },
    { weight: 1, arbitrary: fc.constant('reset' as const) },
  ),
  after: fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(0, 0, 1) },
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 100_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 2_000_000 }) },
  ),
  key: fc.constantFrom('a', 'a', 'a', 'b'),
  resource: fc.constantFrom('all', 'all', 'other'),
  version: fc.oneof(
    { weight: 15, arbitrary: fc.constant(0 as const) },
    { weight: 1, arbitrary: fc.constant(1 as const) },
  ),
  cost: fc.constantFrom(1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 0, 9),
  which: fc.nat({ max: 4 }),
  trips: fc.tuple(trip, trip),
  isAwaited: fc.constantFrom(true, true, false),
})

/** Limits and requests. One of four traces has limits that are shared by all keys. */
export function traces(steps: number): fc.Arbitrary<Trace> {
  return fc.record({
    maxAge: fc.constantFrom(1000, 1000, 50, 20_000),
    keyed: fc.oneof(
      { weight: 3, arbitrary: fc.tuple(versions('one')) },
      { weight: 1, arbitrary: fc.tuple(versions('one'), versions('two')) },
    ),
    shared: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.tuple(versions('all')) }),
    steps: fc.array(step, { minLength: 1, maxLength: steps, size: 'max' }),
  })
}

/** The limiters of a trace, on one store. */
export function limiterOn(store: Store, { keyed, shared }: Trace): Limiter<Input> {
  const chosen = (list: readonly Versions[]) => list.map((pair) => (input: Input) => pair[input.version])
  const byKey = createLimiter<Input>({ name: 'keyed', store, keyer: ({ key }) => key, limits: chosen(keyed) })
  if (shared.length === 0) return byKey
  return stack(
    byKey,
    createLimiter<Input>({ name: 'shared', store, keyer: ({ resource }) => resource, limits: chosen(shared) }),
  )
}

/** Waits on the way to the store, or back. Requests move on when time passes. */
function pause(time: Timeline, micros: number): Promise<void> {
  if (micros === 0) return Promise.resolve()
  return new Promise((resolve) => {
    time.at(time.now + micros, undefined, () => {
      resolve()
      return settled()
    })
  })
}

async function settled(): Promise<void> {
  for (let i = 0; i < 16; i++) await undefined
}

/** What one key has gone through that may lift a denial. */
interface Change {
  readonly process: number
  readonly at: number
  /** True if it was a decision that overlapped with another one of its process on the same key. */
  readonly isCrossed: boolean
}

/** A decision on its way. */
interface Travelling {
  isCrossed: boolean
}

/** What has happened to each key that may lift a denial. */
class History {
  readonly #clock: Clock
  readonly #changes = new Map<string, Change[]>()
  readonly #versions = new Map<string, string>()
  readonly #travelling = new Map<string, Set<Travelling>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  change(limiter: string, key: string, process: number, isCrossed = false): void {
    const name = `${limiter} ${key}`
    const changes = this.#changes.get(name) ?? []
    this.#changes.set(name, changes)
    changes.push({ process, at: this.#clock.now(), isCrossed })
  }

  /** A decision is sent. Returns a function for its reply. */
  send(charges: readonly Charge[], process: number): () => void {
    const own: Travelling = { isCrossed: false }
    const all = charges.map((charge) => this.#on(charge, process))
    for (const others of all) {
      for (const other of others) other.isCrossed = true
      if (others.size > 0) own.isCrossed = true
    }
    for (const others of all) others.add(own)
    return () => all.forEach((others) => others.delete(own))
  }

  /** The decisions of a process on their way that have a key. */
  #on({ limiter, key }: Charge, process: number): Set<Travelling> {
    const name = `${process} ${limiter} ${key}`
    const known = this.#travelling.get(name) ?? new Set()
    this.#travelling.set(name, known)
    return known
  }

  /** A request for another version of a limit converts the state. */
  request(charge: Charge, process: number): void {
    const { policy, key } = charge
    const name = `${policy.limiter} ${policy.limit.name} ${key}`
    const version = policy.compiled.signature
    const before = this.#versions.get(name)
    const isCrossed = [...this.#on(charge, process)].some((each) => each.isCrossed)
    if (before !== undefined && before !== version) this.change(policy.limiter, key, process, isCrossed)
    this.#versions.set(name, version)
  }

  /** Notes what an operation may lift. */
  note(operation: Operation, process: number): void {
    if (operation.kind === 'forget') this.change(operation.limiter, operation.key, process)
    else if (operation.kind === 'consume') for (const charge of operation.charges) this.request(charge, process)
    else if (operation.kind !== 'peek')
      for (const { policy, key } of operation.charges) this.change(policy.limiter, key, process)
  }

  /** True if another process has changed one of the keys within so many milliseconds, or a version of a limit that crossed others of its process. */
  hasChanged(charges: readonly Charge[], process: number, ms: number): boolean {
    const since = this.#clock.now() - ms
    const changes = charges.flatMap(({ policy, key }) => this.#changes.get(`${policy.limiter} ${key}`) ?? [])
    return changes.some((change) => (change.process !== process || change.isCrossed) && change.at > since)
  }
}

/** Counts of all traces. */
export interface Counts {
  decisions: number
  answered: number
  stale: number
}

/** Two processes with a `denyCache` each, and the store that both ask. Throws when a cache denies what the store would admit. */
class World {
  readonly time = new Timeline()
  readonly #clock: Clock = { now: () => this.time.now / 1000 }
  readonly #store: SyncStore
  readonly #counts: Counts
  readonly #maxAge: number
  readonly #history = new History(this.#clock)
  readonly #options: DenyCacheOptions
  trips: readonly [number, number] = [0, 0]

  constructor({ maxAge }: Trace, counts: Counts) {
    this.#store = memoryStore({ clock: this.#clock })
    this.#counts = counts
    this.#maxAge = maxAge
    this.#options = { maxAge: `${maxAge}ms` }
  }

  process(process: number): AsyncStore {
    let asked = 0
    const noted: SyncStore = {
      ...this.#store,
      run: (operation, reply) => {
        this.#history.note(operation, process)
        return this.#store.run(operation, reply)
      },
    }
    const cache = denyCache(
      {
        ...remoteStore(noted),
        run: (operation, reply) => {
          if (isDeciding(operation)) asked++
          const ways = [...this.trips]
          const arrived = operation.kind === 'consume' ? this.#history.send(operation.charges, process) : undefined
          return remoteStore(noted, () => pause(this.time, ways.shift()!)).run(operation, {
            answered: (by) => {
              arrived?.()
              reply.answered(by)
            },
            failed: (error) => reply.failed(error),
          })
        },
      },
      this.#options,
    )
    return {
      ...cache,
      run: (operation, reply) => {
        if (!isDeciding(operation)) return cache.run(operation, reply)
        const before = asked
        const failed = (error: unknown): void => reply.failed(error)
        return cache.run(operation, {
          answered: (by) => {
            this.#counts.decisions++
            try {
              if (asked === before) this.#check(operation.charges, process)
            } catch (error) {
              return failed(error)
            }
            reply.answered(by)
          },
          failed,
        })
      },
    }
  }

  /** Compares an answer of a cache with what the store says at the same moment. */
  #check(charges: readonly Charge[], process: number): void {
    this.#counts.answered++
    const asked = charges.map(({ policy, key, cost }) => new Charge(policy, key, cost))
    perform(this.#store, { kind: 'peek', charges: asked, fresh: true })
    if (asked.some(denies)) return
    if (!this.#history.hasChanged(charges, process, this.#maxAge))
      throw new Error('a cache denied what the store admits')
    this.#counts.stale++
  }
}

function denies({ allowed, limit }: Charge): boolean {
  return !allowed && limit.shadow !== true
}

/** Runs a trace. Requests that are not awaited overlap with those after them. */
export async function verify(trace: Trace, counts: Counts): Promise<void> {
  const world = new World(trace, counts)
  const limiters = [limiterOn(world.process(0), trace), limiterOn(world.process(1), trace)] as const
  const decisions: [Decision[], Decision[]] = [[], []]
  const open = new Set<Promise<void>>()
  const failures: Error[] = []
  async function run(step: Step): Promise<void> {
    const limiter = limiters[step.process]
    const own = decisions[step.process]
    const earlier = own.at(-1 - step.which)
    if (step.kind === 'consume') own.push(await limiter.consume(step, { cost: step.cost }))
    else if (step.kind === 'peek') await limiter.peek(step, { cost: step.cost })
    else if (step.kind === 'reset') await limiter.reset(step)
    else if (earlier?.allowed === true)
      await (step.kind === 'refund' ? limiter.refund(earlier) : limiter.settle(earlier, step.cost))
  }
  for (const step of trace.steps) {
    await world.time.pass(step.after)
    world.trips = step.trips
    const done = run(step)
      .catch((error: unknown) => void failures.push(error as Error))
      .finally(() => open.delete(done))
    open.add(done)
    await settled()
    while (step.isAwaited && open.has(done)) await world.time.pass(10_000)
  }
  while (open.size > 0) await world.time.pass(10_000)
  if (failures.length > 0) throw failures[0]!
}
