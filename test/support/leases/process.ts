import { type AsyncStore, type Clock, lease, type Store } from '../../../src/index.ts'
import type { Operation, Reply } from '../../../src/extend.ts'
import { type Charge, copiesOf, isDeciding, perform, type Policy, undo } from '../../../src/stores/store.ts'
import { chain } from '../../../src/util/maybe-promise.ts'
import { wrappers } from '../../../src/stores/wrappers.ts'
import type { Timeline } from '../timeline.ts'
import type { Trace } from './traces.ts'

/** What a process belongs to. */
export interface World {
  readonly trace: Trace
  readonly isLeased: boolean
  readonly time: Timeline
  readonly server: Store
  /** An operation leaves a process. Returns its number. */
  sends(operation: Operation, process: Process): number
  /** The store has done an operation. */
  served(operation: Operation, process: Process, sent: number): void
  /** An answer reaches a process. */
  heard(operation: Operation, process: Process, at: number): void
  /** A process has used an answer. */
  learned(operation: Operation, process: Process, at: number, number: number): void
  /** A decision was given up, and is refunded. */
  undone(charges: readonly Charge[], process: Process): void
}

/** The process whose code runs. */
let current: Process | undefined

/** What a process reads its time from. */
interface Globals {
  readonly hrtime: unknown
  readonly now: unknown
  readonly setTimeout: unknown
  readonly clearTimeout: unknown
}

const REAL: Globals = { hrtime: process.hrtime, now: Date.now, setTimeout, clearTimeout }
const STUBS: Globals = {
  hrtime: () => [Math.floor(current!.monotonic / 1e6), (current!.monotonic % 1e6) * 1000],
  now: () => Math.floor(current!.clock.now()),
  setTimeout: (wake: () => void, ms: number) => current!.clock.after!(ms, wake),
  clearTimeout: (cancel: () => void) => cancel(),
}

function install({ hrtime, now, ...timers }: Globals): void {
  Object.assign(process, { hrtime })
  Object.assign(Date, { now })
  Object.assign(globalThis, timers)
}

function enterProcess(process: Process | undefined): void {
  if (process === undefined || current === undefined) install(process === undefined ? REAL : STUBS)
  current = process
}

/** A process: a wrapper, a network and clocks. */
export class Process {
  readonly world: World
  readonly store: AsyncStore
  readonly policies: Map<string, Policy> = new Map()
  readonly clock: Clock & { readonly given: boolean }
  /** Microseconds on the way there and back. */
  trips: readonly [number, number]
  outage: 'none' | 'fails' | 'silent' | 'mute' = 'none'
  frozenUntil = 0
  /** Microseconds by which clocks differ from true time. */
  skew = 0
  lost = 0
  hasStepped = false
  version: 0 | 1 = 0
  isLost = false
  inner = 0
  readonly #given: boolean

  constructor(world: World) {
    this.world = world
    this.trips = world.trace.trips
    this.#given = world.trace.given
    const after = (ms: number, wake: () => void): (() => void) =>
      world.time.at(world.time.now + Math.round(ms * 1000) + world.trace.late, this, () => this.enter(wake))
    this.clock = { given: this.#given, now: () => (world.time.now + this.skew) / 1000, after }
    const inner: AsyncStore = {
      sync: false,
      answersAlways: false,
      wrappers,
      place: world.server.place,
      clock: this.clock,
      run: (operation, reply) => this.#send(operation, reply),
      close: async () => undefined,
    }
    const { span, share, from } = world.trace
    this.store = world.isLeased ? lease(inner, { for: span, share, from }) : inner
  }

  get monotonic(): number {
    return this.world.time.now - this.lost
  }

  /** Runs code of the process: clocks and timers are its own. */
  enter<Result>(run: () => Result): Result {
    if (this.isLost) return undefined as Result
    const before = current
    enterProcess(this)
    try {
      return run()
    } finally {
      enterProcess(before)
    }
  }

  #send(operation: Operation, reply: Reply): () => void {
    const { world, outage, trips } = this
    const sent = world.time.now
    let isGivenUp = false
    this.inner++
    const number = world.sends(operation, this)
    if (outage === 'fails')
      world.time.at(sent + trips[0], this, () => this.enter(() => reply.failed(new Error('no connection'))))
    else if (outage !== 'silent') {
      const copies = 'charges' in operation ? copiesOf(operation.charges) : []
      const own = isDeciding(operation) ? { ...operation, charges: copies } : operation
      world.time.at(sent + trips[0], undefined, () => {
        const answer = (): void => {
          const at = world.time.now
          world.served(own, this, sent)
          if (outage === 'mute' || this.isLost) return
          world.time.at(at + trips[1], this, () => {
            // A process that has given up does not see the answer.
            if (isGivenUp) {
              world.undone(copies, this)
              return chain(undo(world.server, copies), () => this.enter(() => reply.answered()))
            }
            world.heard(own, this, at)
            if (own !== operation && 'charges' in operation)
              for (const [i, charge] of operation.charges.entries()) charge.adopt(copies[i]!)
            this.enter(() => reply.answered())
            world.learned(own, this, at, number)
            return undefined
          })
        }
        return chain(perform(world.server as AsyncStore, own), answer)
      })
    }
    return () => {
      isGivenUp = true
    }
  }
}
