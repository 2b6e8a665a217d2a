import {
  type Charge,
  CHARGE,
  type Degraded,
  isCharge,
  type LimiterKey,
  type Policy,
  type Store,
} from '../stores/store.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { Decision } from './decision.ts'
import type { OnSlotLost } from './lost-slots.ts'
import type { Key } from './keyers.ts'
import type { ReceiptSettings } from './receipt-settings.ts'
import { shown, SluiceError } from '../util/errors.ts'
import type { Limit } from '../engine/limit.ts'
import { refuseOtherVersion } from '../util/copies.ts'
import { refuse } from '../util/validate.ts'

/** Where a limiter counts. */
export interface LimiterPlace {
  /** The name of the limiter. */
  readonly name: string
  readonly store: Store
  /** Identifies the counts: the same for limiters with the same definition. */
  readonly home: object
  /** True if the limiter was given no store, or a new memory store, so that it counts from zero. */
  readonly startsFromZero: boolean
  /** The prefix of each key. Default `''`. */
  readonly prefix?: string
  /** How its requests are decided while the store does not answer. Default: as a policy of rules says, or as the store does. */
  readonly onOutage?: Degraded | undefined
}

/** Turns inputs into charges: the part of a limiter that knows which limits and keys an input has. */
export interface ChargeSource<Input> extends LimiterPlace {
  /** How its receipts are written and read. */
  readonly receipts: ReceiptSettings
  /** Returns the charges of an input. `cost`, if given, takes precedence over the source's own. */
  charges(input: Input, cost: number | undefined): MaybePromise<Charge[]>
  /** Returns true for the name of a limiter that its charges have. */
  owns(limiter: string): boolean
  /** Makes the one key of an input. Absent if inputs have several keys. */
  keyer?(input: Input): MaybePromise<Key | null | undefined>
  /** Returns where the store keeps the state of an input. */
  keysOf(input: Input): MaybePromise<readonly LimiterKey[]>
  /** Returns a source with the same limits that counts at another place: with a prefix, or on another store, such as a guard of the store. */
  at(place: Partial<LimiterPlace>): ChargeSource<Input>
  /** Returns a source with the same limits and counts for one key. Absent if inputs have several keys. */
  withKey?(key: Key, hasInput: boolean): ChargeSource<Input>
  /** Returns the names of the limiters that its charges have now. Absent: its own name is the only one. */
  limiters?(): readonly string[]
  /** Returns the charges of a key, as the store keeps it, under one of these limiters; none for another name. Absent with `withKey`. */
  chargesUnder?(limiter: string, key: string, cost: number): Charge[]
  /** How the limiter was made: functions, limits and texts. */
  readonly definition: readonly unknown[]
  /** Called with each decision of `consume` and `wait`. */
  decided?(input: Input, cost: number | undefined, decision: Decision): void
  /** Called with slots of its charges that are lost. Absent: they are a warning. */
  readonly slotLost?: OnSlotLost | undefined
}

/** Returns a valid cost. Throws `INVALID_COST`. */
export function checkedCost(cost: unknown, option = 'cost'): number {
  if (typeof cost === 'number' && Number.isSafeInteger(cost) && cost >= 0) return cost
  throw new SluiceError('INVALID_COST', `${option}: expected a whole number from 0, got ${shown(cost)}`)
}

/** Throws `DUPLICATE_LIMIT` if two limits of a limiter have the same name. */
export function assertUniqueNames(policies: readonly Policy[]): void {
  const names = new Set<string>()
  for (const { limit } of policies) {
    if (names.has(limit.name)) throw duplicateName(limit.name)
    names.add(limit.name)
  }
}

/** Adds a policy that a function returned, unless the list has it already. */
export function addDistinct(policies: Policy[], policy: Policy): void {
  for (const { limit } of policies) {
    if (limit.name !== policy.limit.name) continue
    if (!isSameLimit(limit, policy.limit)) throw duplicateName(limit.name)
    return
  }
  policies.push(policy)
}

function duplicateName(name: string): SluiceError {
  return new SluiceError('DUPLICATE_LIMIT', `Two limits are named ${shown(name)}. Give one of them another \`name\``)
}

/** Removes duplicates: the same limit and key are charged once, with the larger cost. */
export function dedupe(charges: Charge[]): Charge[] {
  for (let i = 1; i < charges.length; i++) {
    for (let j = 0; j < i; j++) {
      if (!isSameState(charges[i]!, charges[j]!)) continue
      if (charges[i]!.cost > charges[j]!.cost) charges[j] = charges[i]!
      charges.splice(i--, 1)
      break
    }
  }
  return charges
}

function isSameState(a: Charge, b: Charge): boolean {
  if (a.key !== b.key || a.limit.name !== b.limit.name) return false
  if (a.policy.limiter !== b.policy.limiter || a.policy.store !== b.policy.store) return false
  if (!isSameLimit(a.limit, b.limit)) throw duplicateName(a.limit.name)
  return true
}

function isSameLimit(a: Limit, b: Limit): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b)
}

/** Returns the charges of a decision. Throws `VERSION_MISMATCH`, and `INVALID_OPTION` for any other value. */
export function chargesOf(decision: Decision): readonly Charge[] {
  const limits = (decision as Decision | undefined)?.limits
  if (Array.isArray(limits)) {
    if (limits.every(isCharge)) return limits
    for (const each of limits) refuseOtherVersion('decision', each, CHARGE)
  }
  return refuse('decision', 'a decision from consume or wait, or its receipt, not a promise or a copy of one', decision)
}

/** Returns true for a denial and for a peek, whose refund is a mistake. Returns false if nothing was charged because the store did not answer. */
export function chargedNothing({ allowed, degraded }: Decision, charges: readonly Charge[]): boolean {
  if (!allowed) return true
  return (
    degraded === undefined && charges.some(isDue) && charges.every((charge) => !isDue(charge) || charge.charged === 0)
  )
}

function isDue({ allowed, cost }: Charge): boolean {
  return allowed && cost > 0
}

/** Returns the units to add. An algorithm may weigh the cost, so they are scaled by what it charged. A shadow limit that denied has charged nothing. */
export function difference(charge: Charge, actual: number): number {
  if (!charge.allowed) return 0
  return charge.cost === 0 ? actual : actual * (charge.charged / charge.cost) - charge.charged
}
