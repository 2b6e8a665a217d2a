import type { Charge, Policy } from '../store.ts'
import type { Algorithm } from '../algorithm.ts'

/** `refuse`: another part of the transaction has been denied already. */
export type Mode = 'consume' | 'peek' | 'refuse' | 'adjust' | 'forget'

/** What stands or falls together: charges with their keys in Redis, and for `adjust` the units of each. */
export interface Transaction {
  readonly mode: Mode
  readonly keys: readonly string[]
  readonly charges: readonly Charge[]
  readonly units: readonly number[]
}

/** Numbers that a verdict takes in a reply. */
const WIDTH = 8

/** Many transactions as the arguments of one script call. */
export class Batch {
  readonly keys: string[] = []
  readonly algorithms: Set<Algorithm> = new Set()
  readonly transactions: readonly Transaction[]
  readonly #keyNumbers = new Map<string, number>()
  readonly #policyNumbers = new Map<Policy, number>()
  readonly #policies: string[] = []
  readonly #body: string[] = []

  constructor(transactions: readonly Transaction[]) {
    this.transactions = transactions
    for (const each of transactions) this.#add(each)
  }

  /** The script's arguments; `now` in microseconds, or `''` for the server's time. */
  arguments(now: string, slack: number): string[] {
    return [now, String(slack), String(this.#policyNumbers.size), ...this.#policies, String(this.transactions.length), ...this.#body]
  }

  /** Writes the verdicts of a reply into the charges. */
  settle(reply: readonly unknown[]): void {
    let at = 0
    for (const { mode, charges } of this.transactions) {
      if (mode === 'adjust' || mode === 'forget') continue
      for (const charge of charges) {
        verdict(charge, reply, at)
        at += WIDTH
      }
    }
  }

  #add({ mode, keys, charges, units }: Transaction): void {
    this.#body.push(mode)
    if (mode === 'forget') {
      this.#body.push(this.#keyNumber(keys[0]!))
      return
    }
    this.#body.push(String(charges.length))
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      this.#body.push(this.#keyNumber(keys[i]!), this.#policyNumber(charge.policy))
      if (mode === 'adjust') this.#body.push(String(units[i]), String(charge.at))
      else this.#body.push(String(charge.cost))
    }
  }

  #keyNumber(key: string): string {
    let number = this.#keyNumbers.get(key)
    if (number === undefined) {
      number = this.keys.push(key)
      this.#keyNumbers.set(key, number)
    }
    return String(number)
  }

  #policyNumber(policy: Policy): string {
    let number = this.#policyNumbers.get(policy)
    if (number === undefined) {
      number = this.#policyNumbers.size + 1
      this.#policyNumbers.set(policy, number)
      this.algorithms.add(policy.mechanism.algorithm)
      for (const word of described(policy)) this.#policies.push(word)
    }
    return String(number)
  }
}

/** A policy in words, once. */
function described(policy: Policy): readonly string[] {
  return (policy.cache ??= describe(policy)) as readonly string[]
}

function describe({ limit, mechanism: { algorithm, parameters, signature } }: Policy): readonly string[] {
  const block = (limit.block ?? 0) * 1000
  const own = algorithm.parameters.map((name) => parameters[name])
  const numbers = [parameters.strict, parameters.perMs, ...own].map(String)
  return [limit.name, signature, limit.shadow ? '1' : '0', String(block), algorithm.name, ...numbers]
}

/** Ticks to milliseconds, as the memory store does it. */
function verdict(charge: Charge, reply: readonly unknown[], at: number): void {
  const { perMs } = charge.policy.mechanism.parameters
  const lock = Number(reply[at + 5]) / 1000
  const retry = Number(reply[at + 2])
  charge.allowed = Number(reply[at]) === 1
  charge.remaining = Number(reply[at + 1])
  charge.retryAfter = retry === -1 ? Infinity : retry / perMs
  charge.resetAfter = Math.max(Number(reply[at + 3]) / perMs, lock)
  charge.delay = Number(reply[at + 4]) / perMs
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, lock)
  charge.receipt(Number(reply[at + 6]), Number(reply[at + 7]))
}
