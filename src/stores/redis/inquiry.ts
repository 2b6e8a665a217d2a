import type { Charge, DecisionMode, Inquiry } from '../store.ts'
import type { Pending } from './queue.ts'
import type { Transaction } from './request.ts'

const NO_UNITS: readonly number[] = []

/** An inquiry on the way through the queue: one object is the transaction, and gets its reply. */
export class PendingInquiry implements Transaction, Pending {
  readonly mode: DecisionMode
  readonly keys: readonly string[]
  readonly units: readonly number[] = NO_UNITS
  readonly #inquiry: Inquiry

  constructor(inquiry: Inquiry, mode: DecisionMode, keys: readonly string[]) {
    this.mode = mode
    this.keys = keys
    this.#inquiry = inquiry
  }

  get transaction(): Transaction {
    return this
  }

  /** Read when the reply comes: the inquiry may have been given up. */
  get charges(): readonly Charge[] {
    return this.#inquiry.charges
  }

  resolve(): void {
    this.#inquiry.answered(undefined)
  }

  reject(reason: unknown): void {
    this.#inquiry.failed(reason)
  }
}
