import { cached, type Charge, type DecisionMode, type Policy, type ReceiptUse } from '../store.ts'
import type { Algorithm } from '../../algorithms/algorithm.ts'
import type { Renewed } from '../../engine/adjust.ts'
import type { SluiceError } from '../../util/errors.ts'
import { ticks } from '../../util/ticks.ts'
import { transactionFailure } from './failure.ts'
import { signature } from './keys.ts'

// The first number of the part of a charge in a reply. An admitted charge has only `remaining` and `reset` and no such number.
const DENIED = -1
const DENIED_BY_OTHERS = -2

/**
 * Writes the part of a reply that begins at `at` into its charge. `now` is the time of the script in microseconds. Returns where the next part begins.
 * Ticks become milliseconds as in the memory store.
 */
function readVerdict(
  charge: Charge,
  mode: DecisionMode | 'refuse',
  reply: readonly unknown[],
  at: number,
  now: number,
): number {
  const code = numberIn(reply[at])
  if (code >= 0) {
    plain(charge, true, code, numberIn(reply[at + 1]))
    if (mode === 'consume' && charge.cost > 0) charge.markCharged(ticks(charge.policy.compiled, now), charge.cost)
    return at + 2
  }
  if (code === DENIED_BY_OTHERS) {
    plain(charge, true, numberIn(reply[at + 1]), numberIn(reply[at + 2]))
    return at + 3
  }
  if (code === DENIED) {
    plain(charge, false, numberIn(reply[at + 1]), numberIn(reply[at + 2]))
    charge.retryAfter = numberIn(reply[at + 3]) / charge.policy.compiled.perMs
    return at + 4
  }
  whole(charge, reply, at + 1)
  return at + 9
}

function plain(charge: Charge, allowed: boolean, remaining: number, reset: number): void {
  charge.allowed = allowed
  charge.remaining = remaining
  charge.retryAfter = 0
  charge.resetAfter = reset / charge.policy.compiled.perMs
  charge.delay = 0
  charge.markCharged(0, 0)
}

function whole(charge: Charge, reply: readonly unknown[], at: number): void {
  const { perMs } = charge.policy.compiled
  const lock = endlessIn(reply[at + 5]) / 1000
  charge.allowed = numberIn(reply[at]) === 1
  charge.remaining = endlessIn(reply[at + 1])
  charge.retryAfter = endlessIn(reply[at + 2]) / perMs
  charge.resetAfter = Math.max(endlessIn(reply[at + 3]) / perMs, lock)
  charge.delay = endlessIn(reply[at + 4]) / perMs
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, lock)
  charge.markCharged(endlessIn(reply[at + 6]), endlessIn(reply[at + 7]))
  charge.markLocked(lock)
}

/** Reads a number that may be infinite: −1 means infinity, and no number is negative. */
function endlessIn(value: unknown): number {
  const number = numberIn(value)
  return number === -1 ? Infinity : number
}

/** Reads a number. Clients return a number, a bigint or a text. */
function numberIn(value: unknown): number {
  if (typeof value === 'number') return value
  const number = Number(value)
  if (Number.isNaN(number)) throw new TypeError('the answer is not what the script sends')
  return number
}

/** What a transaction does. `refuse`: nothing is charged, because another part of the decision was denied before. */
export type Mode = 'consume' | 'peek' | 'refuse' | 'forget' | ChangeMode

/**
 * Modes that change states without a decision. Each charge has units, or microseconds for a lock. `release` refunds what the same decision has just
 * charged.
 */
export type ChangeMode = 'adjust' | 'release' | 'renew' | 'lock' | 'extend'

const CHANGES: ReadonlySet<Mode> = new Set<ChangeMode>(['adjust', 'release', 'renew', 'lock', 'extend'])

function changes(mode: Mode): mode is ChangeMode {
  return CHANGES.has(mode)
}

/** Charges that all happen or none, with their keys in Redis, and for changes the units of each charge. */
export interface Transaction {
  readonly mode: Mode
  readonly keys: readonly string[]
  readonly charges: readonly Charge[]
  readonly units: readonly number[]
  /** Receives the results of a renewal. */
  readonly renewed?: Map<Charge, Renewed> | undefined
  /** The receipt of an adjustment or a renewal, and the key of its note. */
  readonly once?: { readonly key: string; readonly receipt: ReceiptUse } | undefined
}

/** Many transactions as the arguments of one call. */
export class ScriptRequest {
  readonly keys: string[] = []
  readonly algorithms: Set<Algorithm> = new Set()
  readonly transactions: readonly Transaction[]
  readonly isPeek: boolean
  readonly #runs: string[] = []

  constructor(transactions: readonly Transaction[]) {
    this.transactions = transactions
    this.isPeek = transactions.every(({ mode }) => mode === 'peek')
    let next = this.#addRun(0)
    if (next === transactions.length && !changes(transactions[0]!.mode)) this.#runs.length = 1
    while (next < transactions.length) next = this.#addRun(next)
  }

  /** Returns the arguments after the keys. `clock` is the time in microseconds if the store does not use the time of the server. */
  arguments(clock: number | undefined): string[] {
    return clock === undefined ? this.#runs : [`@${clock}`, ...this.#runs]
  }

  /** Writes the verdicts of a reply into the charges. Calls `done` for each transaction, with its error if it has failed. */
  settle(reply: readonly unknown[], done: (index: number, failure: SluiceError | undefined) => void): void {
    const now = Number(reply[0])
    let at = 1
    for (let i = 0; i < this.transactions.length; i++) {
      const { mode, charges, renewed, once } = this.transactions[i]!
      const failure = failureIn(reply[at], charges)
      if (failure === undefined && once !== undefined) once.receipt.isRepeated ||= numberIn(reply[at]) === 1
      if (failure !== undefined || mode === 'forget' || changes(mode)) at++
      else for (const charge of charges) at = readVerdict(charge, mode, reply, at, now)
      if (failure === undefined && mode === 'renew')
        for (const charge of charges) renewed?.set(charge, { at: numberIn(reply[at++]), units: numberIn(reply[at++]) })
      done(i, failure)
    }
  }

  /** Adds a transaction and the following ones that differ only in their keys. Returns the index of the next transaction. */
  #addRun(first: number): number {
    const pattern = this.transactions[first]!
    let next = first + 1
    while (next < this.transactions.length && sameShape(pattern, this.transactions[next]!)) next++
    for (let i = first; i < next; i++) addDistinct(this.keys, this.transactions[i]!.keys)
    if (pattern.once !== undefined) this.keys.push(pattern.once.key)
    this.#runs.push(planOf(pattern), String(next - first))
    for (const { policy } of pattern.charges) this.algorithms.add(policy.compiled.algorithm)
    if (changes(pattern.mode)) {
      for (const [i, charge] of pattern.charges.entries()) this.#runs.push(String(pattern.units[i]), String(charge.at))
    }
    if (pattern.once !== undefined) this.#runs.push(...useOf(pattern.once.receipt))
    return next
  }
}

/** Returns the end of a receipt and of its note in microseconds, and what it does: 1 settles, 2 releases. */
function useOf({ until, keep, settles, releases }: ReceiptUse): string[] {
  return [until * 1000, keep * 1000, (settles ? 1 : 0) + (releases ? 2 : 0)].map(String)
}

/**
 * Returns a transaction as text: its mode, with a star if it has a receipt, and for each charge the number of its key in the transaction, its cost, and its
 * policy.
 */
function planOf({ mode: named, keys, charges, once }: Transaction): string {
  const mode = once === undefined ? named : `${named}*`
  const cost = (charge: Charge): number => (changes(named) ? 0 : charge.cost)
  if (charges.length === 1) return `${mode}\n1\t${cost(charges[0]!)}\t${encodePolicy(charges[0]!.policy)}`
  let [plan, key] = [mode, 0]
  for (let i = 0; i < charges.length; i++) {
    if (i === 0 || keys[i] !== keys[i - 1]) key++
    plan += `\n${key}\t${cost(charges[i]!)}\t${encodePolicy(charges[i]!.policy)}`
  }
  return plan
}

/** Adds keys. Charges of the same key are neighbours (see `transactionOf`), so their key is added once. */
function addDistinct(to: string[], keys: readonly string[]): void {
  for (let i = 0; i < keys.length; i++) if (i === 0 || keys[i] !== keys[i - 1]) to.push(keys[i]!)
}

function sameShape(one: Transaction, other: Transaction): boolean {
  if (one.mode !== other.mode || changes(one.mode) || one.charges.length !== other.charges.length) return false
  for (let i = 0; i < one.charges.length; i++) {
    const [a, b] = [one.charges[i]!, other.charges[i]!]
    if (a.policy !== b.policy || a.cost !== b.cost) return false
    if (i > 0 && (one.keys[i] === one.keys[i - 1]) !== (other.keys[i] === other.keys[i - 1])) return false
  }
  return true
}

/** Makes a transaction in which charges of the same key are neighbours. */
export function transactionOf(
  mode: Mode,
  keys: readonly string[],
  charges: readonly Charge[],
  units: readonly number[] = [],
): Transaction {
  if (!isScattered(keys)) return { mode, keys, charges, units }
  const order = keys.map((_, i) => i).toSorted((a, b) => keys.indexOf(keys[a]!) - keys.indexOf(keys[b]!))
  return {
    mode,
    keys: order.map((i) => keys[i]!),
    charges: order.map((i) => charges[i]!),
    units: units.length === 0 ? units : order.map((i) => units[i]!),
  }
}

/** Returns true if a key occurs again after another key. */
function isScattered(keys: readonly string[]): boolean {
  for (let i = 2; i < keys.length; i++) if (keys[i] !== keys[i - 1] && keys.indexOf(keys[i]!) < i) return true
  return false
}

function encodePolicy(policy: Policy): string {
  return cached(policy, ENCODING, (given) => ({ owner: ENCODING, text: encode(given) })).text
}

const ENCODING = {}

function encode({ limit, compiled }: Policy): string {
  const mark = limit.strict === true ? 'strict' : limit.shadow === true ? 'shadow' : ''
  const { block, growth } = compiled
  const text = `${limit.name}\t${signature(compiled)}`
  if (growth !== undefined)
    return [text, mark, block, growth.after, growth.factor, growth.upTo, growth.memory].join(';')
  return mark === '' && block === 0 ? text : `${text};${mark};${block}`
}

/**
 * Returns the error of a transaction. Its part of a reply begins with a number, or with an error text. Some clients return numbers as texts, and some can be
 * set to return texts as bytes.
 */
function failureIn(value: unknown, charges: readonly Charge[]): SluiceError | undefined {
  const isText = typeof value === 'string' || value instanceof Uint8Array
  return isText && Number.isNaN(Number(value)) ? transactionFailure(String(value), charges) : undefined
}
