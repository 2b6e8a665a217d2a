import type { Limit } from '../limits/limit.ts'

/** The verdict of one limit. All times are in milliseconds. */
export interface LimitStatus {
  /** The limit. */
  readonly limit: Limit
  /** The name of the limiter; `'default'` for a limiter without a name, and `'rules/<policy>'` for a policy of rules. */
  readonly limiter: string
  /** Who was counted: the key as a string, `''` for inputs without a key. */
  readonly key: string
  /** The cost of the request against this limit. */
  readonly cost: number
  /** This limit's own verdict. */
  readonly allowed: boolean
  /** Units that remain under this limit. */
  readonly remaining: number
  /**
   * Units that cannot be used now: the capacity of the limit minus `remaining`. The capacity is `burst` or `capacity` where a limit has
   * one, else the quota. A debt, and a key that is locked out, count as the whole capacity.
   */
  readonly used: number
  /**
   * Time until this limit admits the same cost; 0 if it does now, `Infinity` if never. A `strict` limit that admits a request which
   * another one denies is charged, and may need a wait from then on.
   */
  readonly retryAfter: number
  /** Time until the state of this key has expired. */
  readonly resetAfter: number
  /** Time an admitted request must wait for this limit. */
  readonly delay: number
}
