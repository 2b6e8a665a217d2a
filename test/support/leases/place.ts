import type { Limit } from '../../../src/index.ts'
import type { Policy } from '../../../src/stores/store.ts'
import { Subject } from '../harness.ts'
import type { Process } from './process.ts'

/** What the store has charged, and what became of it. */
export interface Record {
  readonly process: Process
  readonly at: number
  /** True microseconds. */
  readonly time: number
  readonly sent: number
  /** The end of the window of the store, for algorithms with windows of their own. */
  readonly until: number
  readonly charged: number
  net: number
  /** Units that decisions have used. */
  used: number
}

/** An admission. */
export interface Use {
  readonly record: Record
  readonly time: number
  readonly until: number
  net: number
}

/** What a process has heard about a key. */
export interface Heard {
  /** When the store gave the latest answer, and the latest one after which the process had sent no refund or charge of its own. */
  at: number
  wholeAt: number
  /** The latest refund, or charge without a decision, that the process has sent. */
  adjusted: number
  /** What remains, as of the latest report. */
  remaining: number
  /** When the store gave the answer that the process had taken over as a whole by then. */
  reportedAt: number
  /** Units that have come back to a lease since. */
  back: number
}

export interface Lock {
  readonly process: Process
  readonly from: number
  readonly until: number
  answered: number
}

/** One key under one limit. */
export class Place {
  readonly limit: Limit
  readonly capacity: number
  readonly micros: number
  readonly records: Record[] = []
  readonly uses: Use[] = []
  /** Units that processes have added in the store. */
  readonly added: {
    readonly process: Process
    readonly time: number
    readonly units: number
    readonly settled: number
  }[] = []
  /** Units that have come back to the store, except for a process whose lease they were. */
  readonly back: { readonly time: number; readonly units: number; readonly but: Process | undefined }[] = []
  readonly heard: Map<Process, Heard> = new Map()
  locks: Lock[] = []
  mirror: Subject | undefined
  resetAt: number = -Infinity
  /** True once a settlement has left nothing: a refund may give nothing back then. */
  isOver = false
  charged = 0
  refunded = 0
  used = 0
  /** False once the limit has changed or the key was reset: then bounds of intervals say nothing. */
  isWhole = true

  constructor(policy: Policy, isWhole: boolean) {
    this.limit = policy.limit
    this.capacity = policy.compiled.capacity
    this.micros = policy.compiled.micros
    if (isWhole && hasWindows(policy.limit)) this.mirror = new Subject(policy.limit)
  }

  /** Adds units to the mirror. A charge from before a reset is not refunded. */
  adjustMirror(now: number, at: number, units: number): void {
    if (units > 0 || at > this.resetAt) this.mirror?.adjust(Math.floor(now / this.micros), at, units)
  }

  /** Notes units that another process, or a refund, has brought back. */
  cameBack(time: number, units: number, but?: Process): void {
    this.back.push({ time, units, but })
  }
}

/** True for limits that return no unit by themselves during a history. */
export function keepsUnits(limit: Limit): boolean {
  const returnsLater =
    limit.window >= 3_600_000 && (limit.algorithm === 'fixedWindow' || limit.algorithm.startsWith('sliding'))
  // A window with an offset may end in the history.
  return returnsLater && Number(limit['offset'] ?? 0) === 0
}

/** True for limits whose windows begin with a request. */
function hasWindows(limit: Limit): boolean {
  return limit['refill'] === 'interval' || opensWindows(limit)
}

export function opensWindows({ algorithm, anchor }: Limit): boolean {
  return algorithm === 'fixedWindow' && anchor !== 'clock' && anchor !== 'calendar'
}

/** The end of the window of a charge, in microseconds: of the store's own, or of one on the grid. */
export function windowEnd({ limit, mirror, micros }: Place, at: number): number {
  if (mirror !== undefined) return (mirror.cells[opensWindows(limit) ? 0 : 1]! + mirror.window) * micros
  const { algorithm, buckets = 10 } = limit
  const parts = algorithm === 'slidingWindowCounter' ? 1 : algorithm === 'slidingWindowBuckets' ? Number(buckets) : 0
  const length = (limit.window * 1000) / parts
  return parts === 0 ? Infinity : (Math.floor((at * micros) / length) + 1) * length
}
