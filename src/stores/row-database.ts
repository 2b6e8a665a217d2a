import { SluiceError } from '../util/errors.ts'

/** Milliseconds for which a row is kept after it has expired, because clocks differ. */
export const GRACE_MS = 1000

/** The writes of a transaction, and its result. */
export interface Changes<Result> {
  /** The writes. The database stores all of them or none. */
  readonly writes: readonly RowWrite[]
  /** The result that `transact` returns when the writes are stored. */
  readonly result: Result
}

/** A row to store under a key, or to delete. */
export interface RowWrite {
  /** One of the keys of the transaction. */
  readonly key: string
  /** The bytes to store; undefined to delete the row. */
  readonly row: Uint8Array | undefined
  /** The epoch millisecond from which on the row may be deleted. A late deletion is harmless. An early one admits too many requests. */
  readonly expiresAt: number
}

/** Decides about the rows of some keys. The function is pure, because a repeated transaction calls it again. */
export type Change<Result> = (rows: readonly (Uint8Array | undefined)[], now: number) => Changes<Result>

/** Information about a transaction. */
export interface TransactionInfo {
  /** True if `change` returns no writes. */
  readonly readOnly: boolean
  /** Milliseconds for which the caller waits for the result. The database may end the transaction after that. Default: its own time-out. */
  readonly within?: number
}

/** A database with transactions, in the form that `rowStore` needs. */
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
   * The most keys of a transaction, from 1. An operation that has more keys itself has its own transaction. Default: no limit. Up to 256 operations
   * share a transaction.
   */
  readonly mostKeys?: number
  /** The most transactions at a time, from 1. They have no key in common. Default: 4. */
  readonly inFlight?: number
  /** Resolves if connection, table and rights are correct. Rejects with `STORE_SETUP` and a message that says what to do. Default: there is nothing to check. */
  ready?(): Promise<void>
  /** Releases the resources of the database, if the store owns them. */
  close?(): Promise<void> | void
  /** The place of the rows, with a name for messages. Databases with the same object count in one place. Default: each database is a place. */
  readonly place?: { readonly name: string }
  /** `'record'` if a transaction can only have one key. A stack is refused then. Default: a transaction has any number of keys. */
  readonly together?: 'record'
}

/** A database whose `transact` returns its result at once. */
export interface SyncRowDatabase extends RowDatabase {
  /** Marks the database. */
  readonly sync: true
  transact<Result>(keys: readonly string[], change: Change<Result>, options: TransactionInfo): Result
  close?(): void
}

/** A database whose keys can be listed. The command line uses it. */
export interface ListedDatabase extends RowDatabase {
  /** Returns the first keys after `key`, in the order of the database. `''` is before all keys. */
  keysAfter(key: string, most: number): Promise<readonly string[]> | readonly string[]
  /** Returns the approximate number of keys. */
  size(): Promise<number> | number
}

/**
 * The error that `transact` of a `RowDatabase` throws if other transactions have locked rows. Operations on other rows are repeated without them.
 * Operations on a locked row are tried once more alone, and then reject with this error. Its code is `STORE_BUSY`.
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
