import calculateSlot from 'cluster-key-slot'
import type { Algorithm } from '../algorithm.ts'
import { Batch, type Transaction } from './redis-batch.ts'
import type { ScriptRunner } from './redis-clients.ts'
import { failure } from './redis-failure.ts'
import { type Script, scriptFor } from './redis-script.ts'

interface Pending {
  readonly transaction: Transaction
  resolve(): void
  reject(reason: unknown): void
}

/** Transactions in one script call: Redis does nothing else while it runs. */
const LARGEST_BATCH = 256

/** How transactions get to Redis: those of one turn of the event loop in one script call, or in a cluster one for each slot. */
export class RedisQueue {
  readonly #runner: ScriptRunner
  readonly #now: () => string
  readonly #slack: number
  readonly #algorithms = new Set<Algorithm>()
  #script: Script | undefined
  #pending: Pending[] = []
  #underWay = 0
  #scheduled = false

  /** `now` tells the time in microseconds, or `''` for the server's; keys outlive their use by `slack` milliseconds. */
  constructor(runner: ScriptRunner, now: () => string, slack: number) {
    this.#runner = runner
    this.#now = now
    this.#slack = slack
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
   * Sends transactions, in this order where they share a slot: at once when nothing is under way; what is asked meanwhile
   * travels together when this turn of the event loop ends.
   */
  send(...transactions: readonly Transaction[]): Promise<void> {
    const sent = transactions.map((each) => this.#enqueue(each))
    if (this.#underWay === 0) this.#flush()
    else if (!this.#scheduled) {
      this.#scheduled = true
      setImmediate(() => this.#flush())
    }
    return sent.length === 1 ? sent[0]! : allDone(sent)
  }

  #enqueue(transaction: Transaction): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ transaction, resolve, reject })
    })
  }

  #flush(): void {
    this.#scheduled = false
    const pending = this.#pending
    this.#pending = []
    for (const group of this.#together(pending)) {
      for (let i = 0; i < group.length; i += LARGEST_BATCH) void this.#run(group.slice(i, i + LARGEST_BATCH))
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
    try {
      const batch = new Batch(group.map(({ transaction }) => transaction))
      const failures = batch.settle(await this.#call(batch))
      for (const [i, { resolve, reject }] of group.entries()) {
        const message = failures[i]
        if (message === undefined) resolve()
        else reject(failure(new Error(message)))
      }
    } catch (error) {
      for (const { reject } of group) reject(failure(error))
    } finally {
      this.#underWay--
    }
  }

  async #call(batch: Batch): Promise<readonly unknown[]> {
    const { text, sha } = this.#scriptFor(batch)
    const args = batch.arguments(this.#now(), this.#slack)
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
    if (this.#script === undefined || this.#algorithms.size > known) this.#script = scriptFor([...this.#algorithms])
    return this.#script
  }
}

/** Waits for all, also when one has failed: what comes next may rely on it that nothing is under way any more. */
async function allDone(sent: readonly Promise<void>[]): Promise<void> {
  for (const each of await Promise.allSettled(sent)) if (each.status === 'rejected') throw each.reason
}

/** valkey-glide has words of its own for what the server says. */
function isScriptMissing(error: unknown): boolean {
  return /NOSCRIPT|NoScriptError/.test(String((error as Error | undefined)?.message))
}
