import calculateSlot from 'cluster-key-slot'
import type { Algorithm } from '../../algorithms/algorithm.ts'
import { steadyClock } from '../../util/clock.ts'
import type { ScriptClient } from './clients.ts'
import { failure } from './failure.ts'
import { type Program, programFor } from './library.ts'
import { ScriptRequest, type Transaction } from './request.ts'
import { Runner } from './runner.ts'

/** A transaction that waits for its reply. */
export interface Pending {
  readonly transaction: Transaction
  resolve(): void
  reject(reason: unknown): void
}

/** Transactions in one call: Redis does nothing else while it runs. */
const LARGEST_CALL = 64
/** Calls that share what is asked: this process and Redis then work at the same time. */
const CALLS = 2

/** How transactions get to Redis: those of one turn of the event loop in a few calls, in a cluster apart for each slot. */
export class RedisQueue {
  readonly #client: ScriptClient
  readonly #runner: Runner
  readonly #clock: (() => number) | undefined
  readonly #reached: () => void
  readonly #algorithms = new Set<Algorithm>()
  #program: Program | undefined
  #pending: Pending[] = []
  #underWay = 0
  /** The server's time minus that of this process, in milliseconds, as of the latest reply. */
  #ahead = 0
  #asked = 0

  /**
   * `clock`, where given, gives the time in microseconds instead of the server.
   * @param reached is called when the server has answered
   */
  constructor(client: ScriptClient, clock: (() => number) | undefined, reached: () => void) {
    this.#reached = reached
    this.#client = client
    this.#runner = new Runner(client)
    this.#clock = clock
  }

  /** Returns the time by which the server decides, in epoch milliseconds. Before the first reply it is that of this process. */
  now(): number {
    return this.#clock === undefined ? steadyClock.now() + this.#ahead : this.#clock() / 1000
  }

  /** True when keys of one call must share a slot. */
  get inCluster(): boolean {
    return this.#client.cluster
  }

  /** The cluster slot of a key. */
  slotOf(key: string): number {
    return calculateSlot(this.#client.keyPrefix + key)
  }

  shareSlot(keys: readonly string[]): boolean {
    for (let i = 1; i < keys.length; i++) {
      if (keys[i] !== keys[0] && this.slotOf(keys[i]!) !== this.slotOf(keys[0]!)) return false
    }
    return true
  }

  /**
   * Sends a transaction, after those sent before it where they share a slot. While fewer than two calls are under way it goes at
   * once, with what else comes of the same event; else when this turn of the event loop ends.
   */
  send(transaction: Transaction): Promise<void> {
    return new Promise<void>((resolve, reject) => this.enqueue({ transaction, resolve, reject }))
  }

  /** Sends a transaction without a promise. */
  enqueue(pending: Pending): void {
    if (this.#pending.push(pending) === 1) this.#schedule()
  }

  /** Sends several, in this order. Waits for all, also when one has failed: then nothing is under way any more. */
  async sendAll(transactions: readonly Transaction[]): Promise<void> {
    const sent = await Promise.allSettled(transactions.map((each) => this.send(each)))
    for (const each of sent) if (each.status === 'rejected') throw each.reason
  }

  #schedule(): void {
    if (this.#underWay < CALLS) process.nextTick(this.#flush)
    else setImmediate(this.#flush)
  }

  readonly #flush = (): void => {
    const pending = this.#pending
    this.#pending = []
    const size = Math.min(Math.ceil((pending.length + this.#asked) / CALLS), LARGEST_CALL)
    for (const group of this.#groups(pending)) {
      for (let i = 0; i < group.length; i += size) void this.#run(group.slice(i, i + size))
    }
  }

  /** What may travel in one call: everything, or in a cluster what shares a slot. */
  #groups(pending: readonly Pending[]): Iterable<readonly Pending[]> {
    if (!this.inCluster) return [pending]
    const groups = new Map<number, Pending[]>()
    for (const each of pending) {
      const slot = this.slotOf(each.transaction.keys[0]!)
      const group = groups.get(slot)
      if (group === undefined) groups.set(slot, [each])
      else group.push(each)
    }
    return groups.values()
  }

  async #run(group: readonly Pending[]): Promise<void> {
    this.#underWay++
    this.#asked += group.length
    try {
      const request = new ScriptRequest(group.map(({ transaction }) => transaction))
      const reply = await this.#call(request)
      this.#ahead = Number(reply[0]) / 1000 - steadyClock.now()
      this.#reached()
      request.settle(reply, (i, failed) => {
        if (failed === undefined) group[i]!.resolve()
        else group[i]!.reject(failed)
      })
    } catch (error) {
      for (const pending of group) pending.reject(failure(error))
    } finally {
      this.#underWay--
      this.#asked -= group.length
    }
  }

  #call(request: ScriptRequest): Promise<readonly unknown[]> {
    const args = request.arguments(this.#clock?.())
    const reply = this.#runner.run(this.#programFor(request), request.isPeek, request.keys, args)
    return reply as Promise<readonly unknown[]>
  }

  /** One program for all algorithms that this store has met: it grows a few times, and is then the same for every call. */
  #programFor(request: ScriptRequest): Program {
    const known = this.#algorithms.size
    for (const each of request.algorithms) this.#algorithms.add(each)
    if (this.#program === undefined || this.#algorithms.size > known) this.#program = programFor([...this.#algorithms])
    return this.#program
  }
}
