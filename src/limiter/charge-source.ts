import type { Charge, Degraded, Store } from '../stores/store.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { Decision } from './decision.ts'
import type { Key } from './keyers.ts'

/** Turns inputs into charges: the part of a limiter that knows which limits and keys an input has. */
export interface ChargeSource<Input> {
  /** The name of the limiter. */
  readonly name: string
  readonly store: Store
  /** Identifies the counts: the same for limiters with the same definition. */
  readonly home: object
  /** True if the limiter was given no store, or a new memory store, so that it counts from zero. */
  readonly startsFromZero: boolean
  /** Returns the charges of an input. `cost`, if given, takes precedence over the source's own. */
  charges(input: Input, cost: number | undefined): MaybePromise<Charge[]>
  /** Returns where the store keeps the state of an input. */
  buckets(input: Input): MaybePromise<readonly Bucket[]>
  /** Returns a source with the same limits whose keys have a prefix. */
  withPrefix(prefix: string): ChargeSource<Input>
  /**
   * Returns a source with the same limits and counts on another store, such as a guard of the store.
   * @param onOutage how its requests are decided while the store does not answer. Default: as the store does
   */
  withStore(store: Store, onOutage: Degraded | undefined): ChargeSource<Input>
  /** Returns a source with the same limits and counts for one key. Absent if inputs have several keys. */
  withKey?(key: Key, hasInput: boolean): ChargeSource<Input>
  /** Describes how the limiter was made, without names. Limiters with the same description do the same. */
  describe(): string
  /** Called with each decision of `consume` and `wait`. */
  decided?(input: Input, cost: number | undefined, decision: Decision): void
}

/** The state of a key under the limits of one limiter. */
export interface Bucket {
  readonly limiter: string
  readonly key: string
}
