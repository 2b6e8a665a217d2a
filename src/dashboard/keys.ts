import type { Limiter } from '../limiter/contract.ts'
import type { ChargeSource } from '../limiter/charges.ts'
import { combine, type Decision } from '../limiter/decision.ts'
import { countsSlots } from '../engine/limit.ts'
import { chargeSourcesOf, type DefaultLimiter } from '../limiter/default-limiter.ts'
import { keyedLimiter, nameOf } from '../limiter/keyed.ts'
import { waitPlaceOf } from '../limiter/wait-place.ts'
import type { HeldByLimit } from '../stores/held.ts'
import { inspectKey } from '../stores/inspect.ts'
import { isCharge, type LimitStatus, perform, type Store } from '../stores/store.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { SluiceError } from '../util/errors.ts'
import { collect, type MaybePromise } from '../util/maybe-promise.ts'
import type { KeyAnswer, KeyState } from './state.ts'

/** A limiter of any input. */
export type AnyLimiter = Limiter<never>

/** The key in a store when the key of the client is too long. The key of the client cannot be found from it. */
const HASHED = /^sha256:[\da-f]{40}$/

function storedKey(key: string): string {
  return HASHED.test(key) ? key : boundedKey(key)
}

/** Looks up and resets keys: keys of the given limiters, and keys of any limiter in the given stores. */
export class Keys {
  readonly #limiters: readonly DefaultLimiter<never>[]
  /** The parts of limiters with rules. Each policy counts as a limiter with its own name. */
  readonly #rules: readonly ChargeSource<never>[]
  readonly #stores: readonly Store[]

  /** Throws `INVALID_OPTION` for a limiter whose inputs have several keys. */
  constructor(limiters: readonly AnyLimiter[], stores: readonly Store[]) {
    const rules = limiters.filter((each) => ruleSourceOf(each) !== undefined)
    this.#rules = rules.map((each) => ruleSourceOf(each)!)
    this.#limiters = limiters.filter((each) => !rules.includes(each)).map((each) => keyedLimiter(each))
    this.#stores = stores
  }

  /** The names of the given limiters, and of the policies of rules. */
  get names(): readonly string[] {
    return [...new Set([...this.#limiters.map(nameOf), ...this.#rules.flatMap((each) => each.limiters!())])]
  }

  /** The given stores, and the stores of the given limiters. */
  get stores(): readonly Store[] {
    return [...this.#stores, ...[...this.#limiters, ...this.#rules].map(({ store }) => store)]
  }

  async lookUp(name: string, key: string): Promise<KeyAnswer> {
    const places = this.#placesOf(name)
    if (places.length === 0) return this.#unknown(name)
    const found = await Promise.all(places.map((store) => inspectKey(store, name, key, HASHED.test(key))))
    const known = await Promise.all([
      ...this.#named(name).map((each) => peekAt(each, key)),
      ...this.#rules.map((each) => peekUnder(each, name, key)),
    ])
    const limits = known.flat()
    if (limits.length > 0) return { limits }
    const held = found.filter((each) => each !== undefined)
    if (held.length > 0) return { limits: held.flatMap((each) => each.limits.map(stateOf)) }
    return { isReset: false, problem: 'This key cannot be looked up, but it can be reset.' }
  }

  async reset(name: string, key: string): Promise<KeyAnswer> {
    const places = this.#placesOf(name)
    if (places.length === 0) return this.#unknown(name)
    for (const limiter of HASHED.test(key) ? [] : this.#named(name)) await limiter.key(key).reset()
    for (const store of places) {
      await perform(store, { kind: 'forget', limiter: name, key: storedKey(key) })
      waitPlaceOf(store).queue?.wake()
    }
    return { isReset: true }
  }

  #named(name: string): readonly DefaultLimiter<never>[] {
    return this.#limiters.filter((each) => nameOf(each) === name)
  }

  /** Returns the stores in which a limiter with this name may count: its own stores, or all given stores if the limiter is unknown. */
  #placesOf(name: string): readonly Store[] {
    const rules = this.#rules.filter((each) => each.owns(name))
    const own = [...this.#named(name), ...rules].map(({ store }) => store)
    return own.length > 0 ? [...new Set(own)] : this.#stores
  }

  #unknown(name: string): KeyAnswer {
    return { problem: `No limiter is named ${JSON.stringify(name)}.` }
  }
}

/** Returns the part of a limiter with rules. Returns `undefined` for any other limiter, and for a stack. */
function ruleSourceOf(given: AnyLimiter): ChargeSource<never> | undefined {
  const sources = Object(given) === given ? chargeSourcesOf(given) : []
  return sources.length === 1 && sources[0]!.chargesUnder !== undefined ? sources[0] : undefined
}

/** Returns the verdicts of the limits of a policy, or none for a policy that is not in the rules. */
async function peekUnder(source: ChargeSource<never>, name: string, key: string): Promise<readonly KeyState[]> {
  const [counted, next] = [0, 1].map((cost) => source.chargesUnder!(name, storedKey(key), cost))
  if (counted!.length === 0) return []
  for (const charges of [counted!, next!]) await perform(source.store, { kind: 'peek', charges, fresh: true })
  return combine(counted!, undefined).limits.map((each, i) => verdictOf(each, next![i]!))
}

/** Returns the verdicts of the limits of a limiter, or none if an input is needed to know them. */
async function peekAt(limiter: DefaultLimiter<never>, key: string): Promise<readonly KeyState[]> {
  if (HASHED.test(key)) return []
  try {
    const handle = limiter.key(key)
    // The decision with cost 0 shows the counts. The decision with cost 1 shows the verdict for the next request.
    const [counted, next] = await collect([0, 1], (cost): MaybePromise<Decision> => handle.peek({ cost }))
    return counted!.limits.map((each, i) => verdictOf(each, next!.limits[i]!))
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'INPUT_NEEDED') return []
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
