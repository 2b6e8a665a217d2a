import type { Algorithm } from '../algorithm.ts'
import type { Charge, Policy } from '../store.ts'

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
    const head = [now, String(slack), String(this.#policyNumbers.size)]
    return [...head, ...this.#policies, String(this.transactions.length), ...this.#body]
  }

  /** Writes the verdicts of a reply into the charges. What went wrong with each transaction, or `undefined`. */
  settle(reply: readonly unknown[]): (string | undefined)[] {
    let at = 0
    return this.transactions.map(({ mode, charges }) => {
      const status = reply[at++]
      if (Number(status) !== 0) return String(status)
      if (mode === 'adjust' || mode === 'forget') return undefined
      for (const charge of charges) {
        verdict(charge, reply, at)
        at += WIDTH
      }
      return undefined
    })
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
  const lock = numberIn(reply[at + 5]) / 1000
  charge.allowed = numberIn(reply[at]) === 1
  charge.remaining = numberIn(reply[at + 1])
  charge.retryAfter = numberIn(reply[at + 2]) / perMs
  charge.resetAfter = Math.max(numberIn(reply[at + 3]) / perMs, lock)
  charge.delay = numberIn(reply[at + 4]) / perMs
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, lock)
  charge.receipt(numberIn(reply[at + 6]), numberIn(reply[at + 7]))
}

/** A number as clients hand it over: a number, a bigint, or its text. None is negative; −1 stands for infinity. */
function numberIn(value: unknown): number {
  const number = Number(value)
  if (Number.isNaN(number)) throw new TypeError('the answer is not what the script sends')
  return number === -1 ? Infinity : number
}
