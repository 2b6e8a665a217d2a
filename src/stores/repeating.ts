import { background } from '../util/clock.ts'
import { SluiceError, whyOf } from '../util/errors.ts'
import { rareWarning, warn } from '../util/warn.ts'
import {
  type Adjusting,
  around,
  copiesOf,
  hasPenalty,
  type Operation,
  perform,
  type Reply,
  type SyncStore,
} from './store.ts'

/** The most charges of adjustments that are kept. A charge takes 300 to 400 bytes. */
const MOST = 10_000
/** Milliseconds for which an adjustment is repeated. */
const LONGEST = 60_000
/** The least and the most milliseconds before adjustments are repeated, and how many are sent then. */
const PAUSE = 5
const LONGEST_PAUSE = 15
const AT_ONCE = 100
const CODE = 'SLUICE_FILE_BUSY'

/** An adjustment that found the store busy. `until`: milliseconds of `performance.now()`. */
interface Kept {
  readonly operation: Adjusting
  readonly until: number
}

/**
 * Repeats refunds, settlements and releases if a store that decides at once is busy. Callers do not wait: an adjustment is tried once without a wait, and
 * then in the background for a minute. At most 10,000 charges are kept. Penalties fail at once, because a reset would have to remove a kept penalty.
 */
export function repeating(inner: SyncStore): SyncStore {
  const { run, close } = new Repeating(inner)
  return around(inner, { run, close })
}

class Repeating {
  readonly #inner: SyncStore
  readonly #kept = new Set<Kept>()
  /** The number of charges in the kept adjustments. */
  #charges = 0
  #cancel: (() => void) | undefined
  readonly #warn = rareWarning(CODE)

  constructor(inner: SyncStore) {
    this.#inner = inner
  }

  readonly run = (operation: Operation, reply: Reply): undefined => {
    if (operation.kind !== 'adjust' || hasPenalty(operation)) this.#inner.run(operation, reply)
    else this.#adjust(operation, reply)
  }

  /** Sends the kept adjustments. Waits for the lock as a decision does. What finds the store busy then is lost with a warning. */
  readonly close = (): void => {
    this.#cancel?.()
    this.#send(this.#kept)
    if (this.#kept.size > 0)
      warn(CODE, `The store was closed. Refunds, settlements and releases that are lost: ${this.#kept.size}`)
    this.#kept.clear()
    this.#inner.close()
  }

  #adjust(operation: Adjusting, reply: Reply): void {
    try {
      perform(this.#inner, { ...operation, within: 0 })
    } catch (error) {
      const { charges, units, receipt } = operation
      if (!isBusy(error) || this.#charges + charges.length > MOST) return reply.failed(error)
      // The charges are copied because the caller may change them after this.
      const kept: Adjusting = { kind: 'adjust', charges: copiesOf(charges), units: [...units], receipt }
      this.#kept.add({ operation: kept, until: performance.now() + LONGEST })
      this.#charges += charges.length
      this.#repeatLater()
    }
    reply.answered()
  }

  #repeatLater(): void {
    const ms = PAUSE + Math.random() * (LONGEST_PAUSE - PAUSE)
    if (this.#kept.size > 0) this.#cancel ??= background(ms, this.#repeat)
  }

  readonly #repeat = (): void => {
    this.#cancel = undefined
    this.#send([...this.#kept].slice(0, AT_ONCE), 0)
    this.#repeatLater()
  }

  /** Sends adjustments in their order, until the store is busy. An adjustment that is too old, or fails for another reason, is lost with a warning. */
  #send(all: Iterable<Kept>, within?: number): void {
    for (const kept of all) {
      const { operation, until } = kept
      try {
        perform(this.#inner, within === undefined ? operation : { ...operation, within })
      } catch (error) {
        if (isBusy(error) && performance.now() < until) return
        this.#warn(() => `A refund, a settlement or a release of slots is lost: ${whyOf(error)}`)
      }
      this.#kept.delete(kept)
      this.#charges -= operation.charges.length
    }
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof SluiceError && error.code === 'STORE_BUSY'
}
