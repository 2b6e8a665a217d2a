import type { Algorithm } from '../../algorithms/algorithm.ts'
import { cached, type Charge, type Policy } from '../store.ts'
import { readVerdict } from './reply.ts'
import { signature } from './signature.ts'

/**
 * `refuse`: another part of the transaction has been denied already. `withdraw`: an adjustment that gives back what was reserved
 * for a request that is denied, no more than is surely left of it.
 */
export type Mode = 'consume' | 'peek' | 'refuse' | 'adjust' | 'withdraw' | 'forget'

/** What stands or falls together: charges with their keys in Redis, and for adjustments the units of each. */
export interface Transaction {
  readonly mode: Mode
  readonly keys: readonly string[]
  readonly charges: readonly Charge[]
  readonly units: readonly number[]
}

/** Many transactions as the arguments of one script call. */
export class Batch {
  readonly keys: string[] = []
  readonly algorithms: Set<Algorithm> = new Set()
  readonly transactions: readonly Transaction[]
  readonly #policies: Policy[] = []
  readonly #runs: string[] = []

  constructor(transactions: readonly Transaction[]) {
    this.transactions = transactions
    const after = this.#addRun(0)
    if (after === transactions.length && this.#isUsual(transactions[0]!)) this.#runs.length = 0
    else for (let i = after; i < transactions.length;) i = this.#addRun(i)
  }

  /** The script's arguments, behind the time if it is ours. */
  arguments(now: readonly string[]): string[] {
    const args = [...now, String(this.#policies.length)]
    for (const policy of this.#policies) args.push(policy.limit.name, described(policy))
    for (const word of this.#runs) args.push(word)
    return args
  }

  /** Writes the verdicts of a reply into the charges. Calls `done` for each transaction, with what went wrong, if anything. */
  settle(reply: readonly unknown[], done: (index: number, failure: string | undefined) => void): void {
    const now = Number(reply[0])
    let at = 1
    for (let i = 0; i < this.transactions.length; i++) {
      const { mode, charges } = this.transactions[i]!
      const failure = failureIn(reply[at])
      if (failure !== undefined || adjusts(mode) || mode === 'forget') at++
      else for (const charge of charges) at = readVerdict(charge, mode, reply, at, now)
      done(i, failure)
    }
  }

  /** Adds a transaction and all that follow and are alike but for their keys. Returns the index of the one after them. */
  #addRun(first: number): number {
    const pattern = this.transactions[first]!
    let next = first + 1
    while (next < this.transactions.length && alike(pattern, this.transactions[next]!)) next++
    for (let i = first; i < next; i++) addDistinct(this.keys, this.transactions[i]!.keys)
    this.#describe(pattern, next - first)
    return next
  }

  #describe({ mode, keys, charges, units }: Transaction, times: number): void {
    const said: string[] = []
    let width = mode === 'forget' ? 1 : 0
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      if (i === 0 || keys[i] !== keys[i - 1]) width++
      said.push(String(width), this.#policyNumber(charge.policy))
      if (adjusts(mode)) said.push(String(units[i]), String(charge.at))
      else said.push(String(charge.cost))
    }
    this.#runs.push(mode, String(times), String(width), String(charges.length), ...said)
  }

  /** True when the only run asks for one unit of every policy on one key: that goes without saying. */
  #isUsual({ mode, keys, charges }: Transaction): boolean {
    if (mode !== 'consume' || charges.length !== this.#policies.length) return false
    return charges.every(({ cost }, i) => cost === 1 && keys[i] === keys[0])
  }

  #policyNumber(policy: Policy): string {
    const index = this.#policies.indexOf(policy)
    if (index !== -1) return String(index + 1)
    this.algorithms.add(policy.compiled.algorithm)
    return String(this.#policies.push(policy))
  }
}

function adjusts(mode: Mode): mode is 'adjust' | 'withdraw' {
  return mode === 'adjust' || mode === 'withdraw'
}

/** Neighbours on the same key share one. */
function addDistinct(to: string[], keys: readonly string[]): void {
  for (let i = 0; i < keys.length; i++) if (i === 0 || keys[i] !== keys[i - 1]) to.push(keys[i]!)
}

function alike(one: Transaction, other: Transaction): boolean {
  if (one.mode !== other.mode || adjusts(one.mode) || one.charges.length !== other.charges.length) return false
  for (let i = 0; i < one.charges.length; i++) {
    const [a, b] = [one.charges[i]!, other.charges[i]!]
    if (a.policy !== b.policy || a.cost !== b.cost) return false
    if (i > 0 && (one.keys[i] === one.keys[i - 1]) !== (other.keys[i] === other.keys[i - 1])) return false
  }
  return true
}

/** A policy in a word, made once. */
function described(policy: Policy): string {
  return cached(policy, DESCRIPTION, description).text
}

const DESCRIPTION = {}

function description(policy: Policy): { readonly owner: object; readonly text: string } {
  return { owner: DESCRIPTION, text: describe(policy) }
}

function describe({ limit, compiled }: Policy): string {
  const mark = limit.strict === true ? 'strict' : limit.shadow === true ? 'shadow' : ''
  const block = (limit.block ?? 0) * 1000
  return mark === '' && block === 0 ? signature(compiled) : `${signature(compiled)};${mark};${block}`
}

/** Where a transaction begins there is a number, or else what went wrong. Some clients hand over numbers as texts. */
function failureIn(value: unknown): string | undefined {
  return typeof value === 'string' && Number.isNaN(Number(value)) ? value : undefined
}
