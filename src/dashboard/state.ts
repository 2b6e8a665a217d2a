// The data that a process sends to the page and to other processes. The page also imports this file, without the types of Node, so this file imports
// nothing.

/** The seconds of a bucket, and the number of buckets: together ten minutes. The last bucket is being filled. */
export const SPAN = 10
export const BUCKETS = 60

/** The counts of one limit. If the names are empty, the counts of all requests. */
export interface Series {
  readonly limiter: string
  readonly limit: string
  /** The description of the limit. */
  readonly words: string
  /** A list of counts for each kind: one count for each bucket, the newest last. If a list is shorter, the older buckets have no counts. */
  readonly counts: readonly (readonly number[])[]
}

/** Requests per second in the last ten to twenty seconds, by outcome: allowed, denied, shadow-denied. */
export type Rates = readonly number[]

/** The counts and the current rates. */
export interface RatedSeries extends Series {
  readonly rates: Rates
}

/** A denied key: the `DeniedKey` of `topDenied`. */
export interface DeniedKey {
  readonly key: string
  readonly limiter: string
  readonly limit: string
  readonly count: number
  readonly error: number
}

/** The state of a store, for the page. */
export interface StoreState {
  readonly name: string
  readonly state: 'healthy' | 'slow' | 'away'
  readonly reason: string
  /** The time of the last change in epoch milliseconds. 0 if it has not changed since the dashboard was created. */
  readonly since: number
}

/** The state of rules, for the page. */
export interface RulesState {
  readonly version: number
  readonly policies: number
  /** The time when the rules took effect, in epoch milliseconds. */
  readonly loadedAt: number
  /** The problem with a newer document or with its source. `''` if there is none. */
  readonly problem: string
}

/** The state of a process, for the page. */
export interface ProcessState {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly since: number
  /** Milliseconds since the process wrote its summary. */
  readonly age: number
  /** True if the next summary is late: the process has ended, is busy, or does not reach the store. Its rates are then 0. */
  readonly isLost: boolean
  readonly memory: number
  readonly rates: Rates
  /** The worst state of its stores. `''` if no store has reported a state. */
  readonly store: StoreState['state'] | ''
  /** The versions of its rules, such as `'3'`. */
  readonly rules: string
}

/** The number of processes that share a state. */
export interface Shared {
  readonly processes: number
}

/** The sums over processes. Times are epoch milliseconds by the clock of the process that computes the sums. */
export interface Sums {
  readonly now: number
  /** The time when the first process began to count. */
  readonly since: number
  readonly processes: readonly ProcessState[]
  /** All requests first, then the limits. The counts are for ten minutes. */
  readonly series: readonly RatedSeries[]
  readonly denied: readonly DeniedKey[]
  readonly stores: readonly (StoreState & Shared)[]
  readonly rules: readonly (RulesState & Shared)[]
}

/** The answer to a request of the page. */
export interface State extends Sums {
  /** The id of the process that answers. */
  readonly self: string
  /** The limiters whose keys a visitor can look up. */
  readonly names: readonly string[]
  readonly fleet: {
    /** The place of the shared store. `''` while there is none. */
    readonly place: string
    /** False with `fleet: false`. */
    readonly isOn: boolean
    readonly problem: string
    readonly unread: number
    readonly isCut: boolean
  }
}

/** The state of a key under one limit. Times are in milliseconds, and `null` means never. */
export interface KeyState {
  readonly limit: string
  readonly allowed: boolean
  readonly used: number | null
  readonly remaining: number | null
  readonly retryAfter: number | null
  readonly resetAfter: number | null
  /** True for a limit with slots. Slots are free when their requests end. `resetAfter` is the time until the newest slot expires. */
  readonly slots: boolean
}

/** The answer about a key, or the reason why there is none. */
export interface KeyAnswer {
  readonly limits?: readonly KeyState[]
  readonly isReset?: boolean
  readonly problem?: string
}
