import calculateSlot from 'cluster-key-slot'
import type { Algorithm } from '../../algorithms/algorithm.ts'
import { Batch, type Transaction } from './request.ts'
import type { ScriptRunner } from './clients.ts'
import { failure } from './failure.ts'
import { type Script, scriptFor } from './library.ts'

interface Pending {
  readonly transaction: Transaction
  resolve(): void
  reject(reason: unknown): void
}

/** Transactions in one script call: Redis does nothing else while it runs. */
const LARGEST_BATCH = 64
const SMALLEST_BATCH = 2
/**
 * Calls in which what is asked travels, when it is enough: so this process and Redis have work at the same time, the answer to
 * one being read while another is decided.
 */
const CALLS = 4

/** How transactions get to Redis: those of one turn of the event loop in one script call, or in a cluster one for each slot. */
export class RedisQueue {
  readonly #runner: ScriptRunner
  readonly #clock: (() => number) | undefined
  readonly #algorithms = new Set<Algorithm>()
  #script: Script | undefined
  #pending: Pending[] = []
  #underWay = 0
  #asked = 0
  #scheduled = false

  /** `clock`, where given, tells the time in microseconds instead of the server. */
  constructor(runner: ScriptRunner, clock?: () => number) {
    this.#runner = runner
    this.#clock = clock
  }

  /** True when keys of one script must share a slot. */
  get inCluster(): boolean {
    return this.#runner.cluster
  }

  /** The cluster slot of a key. */
  slotOf(key: string): number {
    return calculateSlot(this.#runner.keyPrefix + key)
  }

  /**
   * Sends a transaction, after those sent before it where they share a slot: at once when nothing is under way, together with
   * what else comes of the same event; else, when this turn of the event loop ends, with all that was asked meanwhile.
   */
  send(transaction: Transaction): Promise<void> {
    const sent = new Promise<void>((resolve, reject) => {
      this.#pending.push({ transaction, resolve, reject })
    })
    if (!this.#scheduled) this.#schedule()
    return sent
  }

  /** Sends several, in this order. Waits for all, also when one has failed: then nothing is under way any more. */
  async sendAll(transactions: readonly Transaction[]): Promise<void> {
    const sent = await Promise.allSettled(transactions.map((each) => this.send(each)))
    for (const each of sent) if (each.status === 'rejected') throw each.reason
  }

  #schedule(): void {
    this.#scheduled = true
    if (this.#underWay === 0) process.nextTick(this.#flush)
    else setImmediate(this.#flush)
  }

  readonly #flush = (): void => {
    this.#scheduled = false
    const pending = this.#pending
    this.#pending = []
    const most = Math.min(Math.max(Math.ceil((pending.length + this.#asked) / CALLS), SMALLEST_BATCH), LARGEST_BATCH)
    for (const group of this.#together(pending)) {
      for (let i = 0; i < group.length; i += most) void this.#run(group.slice(i, i + most))
    }
  }

  /** What may travel in one script call: everything, or in a cluster what shares a slot. */
  #together(pending: readonly Pending[]): Iterable<readonly Pending[]> {
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
      const batch = new Batch(group.map(({ transaction }) => transaction))
      batch.settle(await this.#call(batch), (i, message) => {
        const { resolve, reject } = group[i]!
        if (message === undefined) resolve()
        else reject(failure(new Error(message)))
      })
    } catch (error) {
      for (const { reject } of group) reject(failure(error))
    } finally {
      this.#underWay--
      this.#asked -= group.length
    }
  }

  async #call(batch: Batch): Promise<readonly unknown[]> {
    const { text, sha } = this.#scriptFor(batch)
    const args = batch.arguments(this.#clock === undefined ? [] : [String(this.#clock())])
    try {
      return (await this.#runner.evalsha(sha, batch.keys, args)) as readonly unknown[]
    } catch (error) {
      if (!isScriptMissing(error)) throw error
      return (await this.#runner.eval(text, batch.keys, args)) as readonly unknown[]
    }
  }

  /** One script for all algorithms that this store has met: it grows a few times, and is then the same for every call. */
  #scriptFor(batch: Batch): Script {
    const known = this.#algorithms.size
    for (const each of batch.algorithms) this.#algorithms.add(each)
    if (this.#script === undefined || this.#algorithms.size > known)
      this.#script = scriptFor([...this.#algorithms], this.#clock !== undefined)
    return this.#script
  }
}

/** valkey-glide has words of its own for what the server says. */
function isScriptMissing(error: unknown): boolean {
  return /NOSCRIPT|NoScriptError/.test(String((error as Error | undefined)?.message))
}
