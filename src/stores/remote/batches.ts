import { SluiceError } from '../../util/errors.ts'
import {
  cached,
  type Charge,
  isDeciding,
  type MessageReceipt,
  type Operation,
  type Policy,
  type Underway,
} from '../store.ts'
import {
  MESSAGE_VERSION,
  type MessageCharge,
  type MessageOperation,
  type MessagePolicy,
  MOST_CHARACTERS,
  MOST_CHARGES,
  MOST_OPERATIONS,
  type StoreMessage,
} from './message.ts'

/** A message, and the objects that wait for its answers. */
export interface Batch<Sent extends Underway> {
  readonly message: StoreMessage
  readonly sent: readonly Sent[]
}

/** The cache entry of a policy: its part of a message, and the length of this part. */
interface Written {
  readonly owner: object
  readonly policy: MessagePolicy
  readonly length: number
}

/** The owner of cache entries. All stores share them, because all write policies in the same way. */
const WRITER = {}
/** The most characters of a charge without its key, and of an operation without its charges. */
const CHARGE_LENGTH = 160
const OPERATION_LENGTH = 400
/** The most characters that one character of a key takes in JSON. */
const ESCAPED = 6

function writtenOf(policy: Policy): Written {
  return cached(policy, WRITER, ({ limiter, limit }) => {
    const written: MessagePolicy = { limiter, limit }
    return { owner: WRITER, policy: written, length: JSON.stringify(written).length }
  })
}

/** Divides operations into messages of a bounded size. An operation that is too large for one message fails. */
export function batchesOf<Sent extends Underway>(waiting: readonly Sent[]): Batch<Sent>[] {
  const batches: Batch<Sent>[] = []
  let writer = new Writer<Sent>()
  for (const each of waiting) {
    if (writer.add(each)) continue
    if (writer.sent.length > 0) batches.push(writer.batch())
    writer = new Writer<Sent>()
    if (!writer.add(each))
      each.fail(new SluiceError('STORE_REJECTED', 'A decision has too many limits for one message'))
  }
  if (writer.sent.length > 0) batches.push(writer.batch())
  return batches
}

class Writer<Sent extends Underway> {
  readonly sent: Sent[] = []
  readonly #policies = new Map<Written, number>()
  readonly #operations: MessageOperation[] = []
  #length = OPERATION_LENGTH
  #charges = 0

  /** Returns false, and adds nothing, if there is no room. */
  add(waiting: Sent): boolean {
    const { operation } = waiting
    const charges = operation.kind === 'forget' ? [] : operation.charges
    const added = new Set(charges.map(({ policy }) => writtenOf(policy)).filter((each) => !this.#policies.has(each)))
    let length = OPERATION_LENGTH + (operation.kind === 'forget' ? ESCAPED * operation.limiter.length : 0)
    for (const { key } of operation.kind === 'forget' ? [operation] : charges)
      length += CHARGE_LENGTH + ESCAPED * key.length
    for (const each of added) length += each.length
    const isFull = this.sent.length >= MOST_OPERATIONS || this.#charges + charges.length > MOST_CHARGES
    if (isFull || this.#length + length > MOST_CHARACTERS) return false
    for (const each of added) this.#policies.set(each, this.#policies.size)
    this.#length += length
    this.#charges += charges.length
    this.#operations.push(this.#write(operation))
    this.sent.push(waiting)
    return true
  }

  batch(): Batch<Sent> {
    const policies = [...this.#policies.keys()].map(({ policy }) => policy)
    return { message: { sluice: MESSAGE_VERSION, policies, operations: this.#operations }, sent: this.sent }
  }

  #write(operation: Operation): MessageOperation {
    if (operation.kind === 'forget') return operation
    const charges = operation.charges.map((charge) => this.#charge(charge, !isDeciding(operation)))
    if (isDeciding(operation) || operation.kind === 'lock') return { ...operation, charges }
    const receipt = operation.receipt && receiptOf(operation.receipt)
    if (operation.kind === 'adjust') return { ...operation, charges, receipt }
    const { renewed: _, ...renewal } = operation
    return { ...renewal, charges, receipt }
  }

  #charge(charge: Charge, isCharged: boolean): MessageCharge {
    const { policy, key, cost, at, charged } = charge
    const written = { policy: this.#policies.get(writtenOf(policy))!, key, cost }
    return isCharged ? { ...written, at, charged } : written
  }
}

function receiptOf({ id, until, keep, settles, releases }: MessageReceipt): MessageReceipt {
  return { id, until, keep, settles, releases }
}
