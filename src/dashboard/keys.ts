import type { Limiter } from '../limiter/contract.ts'
import type { Decision } from '../limiter/decision.ts'
import { countsSlots } from '../engine/limit.ts'
import type { OwnLimiter } from '../limiter/default-limiter.ts'
import { keyedLimiter, nameOf } from '../limiter/keyed.ts'
import { waitPlaceOf } from '../limiter/wait-place.ts'
import type { HeldByLimit } from '../stores/held.ts'
import { inspectKey } from '../stores/inspect.ts'
import { isCharge, type LimitStatus, perform, type Store } from '../stores/store.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { SluiceError } from '../util/errors.ts'
import { collect, type MaybePromise } from '../util/maybe-promise.ts'

/** A limiter of any input. */
export type AnyLimiter = Limiter<never>

/** What a key has under one limit. Times are in milliseconds; `null` means never. */
interface KeyState {
  readonly limit: string
  readonly allowed: boolean
  readonly used: number | null
  readonly remaining: number | null
  readonly retryAfter: number | null
  readonly resetAfter: number | null
  /** True for a limit of slots: they are free when their requests end, and `resetAfter` is when the newest slot expires. */
  readonly slots: boolean
}

/** What a visitor learns about a key, or why it does not. */
export interface KeyAnswer {
  readonly limits?: readonly KeyState[]
  readonly isReset?: boolean
  readonly problem?: string
}

/** A key as stores keep it when the client's key is too long. It cannot be made from that key again. */
const HASHED = /^sha256:[\da-f]{40}$/

/** Looks keys up, and resets them: those of the given limiters, and those of any limiter in the given stores. */
export class Keys {
  readonly #limiters: readonly OwnLimiter<never>[]
  readonly #stores: readonly Store[]

  /** Throws `INVALID_OPTION` for a limiter whose inputs have several keys. */
  constructor(limiters: readonly AnyLimiter[], stores: readonly Store[]) {
    this.#limiters = limiters.map((each) => keyedLimiter(each, 'give their store in `stores`'))
    this.#stores = stores
  }

  /** The names of the given limiters. */
  get names(): readonly string[] {
    return [...new Set(this.#limiters.map(nameOf))]
  }

  async lookUp(name: string, key: string): Promise<KeyAnswer> {
    const places = this.#placesOf(name)
    if (places.length === 0) return this.#unknown(name)
    const found = await Promise.all(places.map((store) => inspectKey(store, name, key, HASHED.test(key))))
    const limits = await Promise.all(this.#named(name).map((each) => peekAt(each, key)))
    const held = found.flatMap((each) => each?.limits.map(stateOf) ?? [])
    const known = limits.flatMap((each) => each ?? [])
    if (known.length > 0) return { limits: known }
    if (found.some((each) => each !== undefined)) return { limits: held }
    return { isReset: false, problem: 'This key cannot be looked up, but it can be reset.' }
  }

  async reset(name: string, key: string): Promise<KeyAnswer> {
    const places = this.#placesOf(name)
    if (places.length === 0) return this.#unknown(name)
    const isHashed = HASHED.test(key)
    for (const limiter of isHashed ? [] : this.#named(name)) await limiter.key(key).reset()
    for (const store of places) {
      await perform(store, { kind: 'forget', limiter: name, key: isHashed ? key : boundedKey(key) })
      waitPlaceOf(store).queue?.wake()
    }
    return { isReset: true }
  }

  #named(name: string): readonly OwnLimiter<never>[] {
    return this.#limiters.filter((each) => nameOf(each) === name)
  }

  /** The stores in which a limiter of this name counts: its own, or else all that were given. */
  #placesOf(name: string): readonly Store[] {
    const own = this.#named(name).map(({ store }) => store)
    return own.length > 0 ? [...new Set(own)] : this.#stores
  }

  #unknown(name: string): KeyAnswer {
    return { problem: `No limiter is named ${JSON.stringify(name)}.` }
  }
}

/** Returns the verdicts of a limiter's limits, or `undefined` if they cannot be known without an input. */
async function peekAt(limiter: OwnLimiter<never>, key: string): Promise<readonly KeyState[] | undefined> {
  if (HASHED.test(key)) return undefined
  try {
    const handle = limiter.key(key)
    // A cost of 0 shows what is counted. What another request would get is the verdict on a cost of 1.
    const [counted, next] = await collect([0, 1], (cost): MaybePromise<Decision> => handle.peek({ cost }))
    return counted!.limits.map((each, i) => verdictOf(each, next!.limits[i]!))
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'INPUT_NEEDED') return undefined
    throw error
  }
}

function verdictOf(counted: LimitStatus, { allowed, retryAfter }: LimitStatus): KeyState {
  const { limit, used, remaining, resetAfter } = counted
  const slots = countsSlots(limit)
  const isHint = slots && !allowed && !(isCharge(counted) && counted.lockedFor > 0)
  return { limit: limit.name, allowed, used, remaining, retryAfter: isHint ? null : retryAfter, resetAfter, slots }
}

function stateOf({ limit, verdict, lockedFor }: HeldByLimit): KeyState {
  const { remaining = 0, used = 0, resetAfter = lockedFor } = verdict ?? {}
  const allowed = lockedFor === 0 && remaining >= 1
  const retryAfter = lockedFor > 0 || allowed ? lockedFor : null
  return { limit, allowed, used, remaining, retryAfter, resetAfter, slots: verdict?.slots === true }
}
