import { SluiceError } from '../util/errors.ts'

/** What a transaction writes, and what it returns. */
export interface Changes<Result> {
  /** Every write, or none. `row` undefined: delete the row. `expiresAt`: epoch milliseconds from which on the row may be deleted. */
  readonly writes: readonly RowWrite[]
  /** What `transact` returns once the writes are stored. */
  readonly result: Result
}

/** A row to store under a key, or to delete. */
export interface RowWrite {
  /** One of the keys of the transaction. */
  readonly key: string
  /** The bytes to store; undefined to delete the row. */
  readonly row: Uint8Array | undefined
  /** Epoch milliseconds from which on the row may be deleted. Late is harmless, early admits too much. */
  readonly expiresAt: number
}

/** What the engine does with the rows of some keys. It is pure: a transaction that is repeated calls it again. */
export type Change<Result> = (rows: readonly (Uint8Array | undefined)[], now: number) => Changes<Result>

/** What a transaction is for. */
export interface TransactionInfo {
  /** True if `change` returns no writes. */
  readonly readOnly: boolean
  /** Milliseconds for which somebody waits for the result. The database may end the transaction then. Default: its own time-out. */
  readonly within?: number
}

/** A database, as far as `rowStore` needs it. */
export interface RowDatabase {
  /**
   * Reads the rows of `keys`, calls `change` with them, stores the writes that it returns, and returns its result. No other transaction on
   * one of these keys may come between. `change` receives the rows in the order of `keys`, `undefined` for a row that does not exist, and the
   * time in microseconds since 1970 by the database's own clock, taken after the rows are locked.
   *
   * Keys are different, sorted, well-formed texts without NUL. With `readOnly`, `change` returns no writes. An error means that nothing is
   * stored. Throw `BusyRows` if other transactions have locked some of the rows, and a `SluiceError` of code `STORE_SETUP` if the table or the
   * rights are wrong. Any other error is `STORE_FAILED`: the database does not answer.
   */
  transact<Result>(keys: readonly string[], change: Change<Result>, options: TransactionInfo): Promise<Result> | Result
  /**
   * The most keys that `keys` may have, from 1. An operation that has more keys on its own is a transaction of its own. Default: no
   * limit; up to 256 operations share a transaction.
   */
  readonly mostKeys?: number
  /** The most transactions at a time, from 1. They have no key in common. Default: 4. */
  readonly inFlight?: number
  /** Resolves when connection, table and rights are right. Rejects with `STORE_SETUP`, and what to do. Default: there is nothing to check. */
  ready?(): Promise<void>
  /** Releases the resources of the database, if the store owns them. */
  close?(): Promise<void> | void
  /** Where the rows are, with a name for messages. Databases with the same object count in one place. Default: each database is a place. */
  readonly place?: { readonly name: string }
  /** `'record'` if a transaction has one key. A stack is refused then. Default: a transaction has any number of keys. */
  readonly together?: 'record'
}

/**
 * Other transactions have locked rows: thrown by `transact` of a `RowDatabase`. The operations on other rows are repeated without them, and the
 * operations on a locked row are tried once more alone. Then they reject with this error, whose code is `STORE_BUSY`.
 * @example throw new BusyRows(lockedKeys, { cause: error })
 */
export class BusyRows extends SluiceError {
  /** The keys of the locked rows: some keys of the transaction, or all. */
  readonly keys: readonly string[]

  constructor(keys: readonly string[], options?: ErrorOptions) {
    const others = keys.length > 1 ? ` and ${keys.length - 1} more` : ''
    super('STORE_BUSY', `Another transaction has locked the row of ${keys[0] ?? 'a key'}${others}`, options)
    this.keys = keys
  }
}
