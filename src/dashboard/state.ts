// What a process sends to the page and to other processes. The page imports this file, too, so it imports nothing: the types of Node are not there.

/** Seconds of a bucket, and the buckets that are kept: ten minutes. The last one is being filled. */
export const SPAN = 10
export const BUCKETS = 60

/** What was counted of one limit; of all requests if its names are empty. */
export interface Series {
  readonly limiter: string
  readonly limit: string
  /** What the limit is. */
  readonly words: string
  /** A list of counts for each kind: at most one for each bucket, the newest last. Buckets before the first one have none. */
  readonly counts: readonly (readonly number[])[]
}

/** Requests per second in the last ten to twenty seconds, by outcome: allowed, denied, shadow-denied. */
export type Rates = readonly number[]

/** What was counted, and the rates now. */
export interface RatedSeries extends Series {
  readonly rates: Rates
}

/** A key that was denied: the `DeniedKey` of `topDenied`. */
export interface DeniedKey {
  readonly key: string
  readonly limiter: string
  readonly limit: string
  readonly count: number
  readonly error: number
}

/** The state of a store as the page shows it. */
export interface StoreState {
  readonly name: string
  readonly state: 'healthy' | 'slow' | 'away'
  readonly reason: string
  /** When it changed, in epoch milliseconds; 0 if it has not changed since the dashboard was created. */
  readonly since: number
}

/** Rules as the page shows them. */
export interface RulesState {
  readonly version: number
  readonly policies: number
  /** When they came into force, in epoch milliseconds. */
  readonly loadedAt: number
  /** What is wrong with a newer document, or with its source; `''` if nothing is. */
  readonly problem: string
}

/** A process as the page shows it. */
export interface ProcessState {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly since: number
  /** Milliseconds since it wrote. */
  readonly age: number
  /** True if its next summary is late: it ended, it is busy, or it does not reach the store. Then it has no rates. */
  readonly isLost: boolean
  readonly memory: number
  readonly rates: Rates
  /** The worst state of its stores; `''` if none has reported one. */
  readonly store: StoreState['state'] | ''
  /** The versions of its rules, such as `'3'`. */
  readonly rules: string
}

/** In how many processes something is so. */
export interface Shared {
  readonly processes: number
}

/** What processes do together. Times are epoch milliseconds by the clock of the process that adds up. */
export interface Sums {
  readonly now: number
  /** When the first of them began to count. */
  readonly since: number
  readonly processes: readonly ProcessState[]
  /** All requests, and then the limits. Counts are of ten minutes. */
  readonly series: readonly RatedSeries[]
  readonly denied: readonly DeniedKey[]
  readonly stores: readonly (StoreState & Shared)[]
  readonly rules: readonly (RulesState & Shared)[]
}

/** What the page asks for. */
export interface State extends Sums {
  /** The id of the process that answers. */
  readonly self: string
  /** The limiters whose keys one can look up. */
  readonly names: readonly string[]
  readonly fleet: {
    /** Where the processes meet; `''` while no store is shared. */
    readonly place: string
    /** False with `fleet: false`. */
    readonly isOn: boolean
    readonly problem: string
    readonly unread: number
    readonly isCut: boolean
  }
}

/** What a key has under one limit. Times are in milliseconds; `null` means never. */
export interface KeyState {
  readonly limit: string
  readonly allowed: boolean
  readonly used: number | null
  readonly remaining: number | null
  readonly retryAfter: number | null
  readonly resetAfter: number | null
  /** True for a limit of slots: they are free when their requests end, and `resetAfter` is when the newest slot expires. */
  readonly slots: boolean
}

/** What a visitor learns about a key, or why it does not. */
export interface KeyAnswer {
  readonly limits?: readonly KeyState[]
  readonly isReset?: boolean
  readonly problem?: string
}
