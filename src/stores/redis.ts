import calculateSlot from 'cluster-key-slot'
import type { Algorithm } from '../algorithm.ts'
import { type Clock, microseconds } from '../clock.ts'
import { SluiceError } from '../errors.ts'
import { type AsyncStore, Charge, type Degraded, type Store, type TakeMode } from '../store.ts'
import { knownOptions, refuse } from '../validate.ts'
import { Batch, type Mode, type Transaction } from './redis-batch.ts'
import { type RedisClient, runnerFor, type ScriptRunner } from './redis-clients.ts'
import { type Script, scriptFor } from './redis-script.ts'

export type { GlideLike, IoredisLike, NodeRedisLike, RedisClient } from './redis-clients.ts'

export interface RedisStoreOptions {
  /** What keys in Redis begin with. Default `'sluice:'`. */
  readonly prefix?: string
  /** Sends this clock's time instead of using the server's: for tests, and for replay. */
  readonly clock?: Clock
}

/** Milliseconds that a key outlives its use; with a clock of one's own nobody knows how far it is from the server's. */
const SLACK = 1000
const SLACK_OF_FOREIGN_CLOCK = 3_600_000
/** Transactions in one script call: Redis does nothing else while it runs. */
const LARGEST_BATCH = 256

/**
 * Keeps state in Redis (6.2 or later) or Valkey, single or cluster: one limit for the whole fleet, by the server's clock.
 * The client is yours; the store neither connects nor closes it.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision is rejected with `STORE_FAILED`, the client's error as its `cause`,
 * when Redis could not decide; nothing is charged then.
 * @example createLimiter({ name: 'api', keyer, limits, store: redisStore(new Redis()) })
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): AsyncStore {
  knownOptions('redisStore', options, ['prefix', 'clock'])
  const { prefix = 'sluice:' } = options
  if (typeof prefix !== 'string') refuse('prefix', 'a string', prefix)
  return new RedisStore(runnerFor(client), prefix, options.clock)
}

interface Pending {
  readonly transaction: Transaction
  resolve(): void
  reject(reason: unknown): void
}

class RedisStore implements AsyncStore {
  readonly sync = false
  readonly #runner: ScriptRunner
  readonly #prefix: string
  readonly #clock: Clock | undefined
  readonly #algorithms = new Set<Algorithm>()
  #script: Script | undefined
  #pending: Pending[] = []
  #underWay = 0
  #scheduled = false
  #closed = false

  constructor(runner: ScriptRunner, prefix: string, clock: Clock | undefined) {
    this.#runner = runner
    this.#prefix = prefix
    this.#clock = clock
  }

  joins(other: Store): boolean {
    return other === this
  }

  async take(charges: readonly Charge[], mode: TakeMode): Promise<Degraded | undefined> {
    const keys = charges.map(({ policy, key }) => this.#key(policy.limiter, key))
    const groups = this.#runner.cluster ? bySlot(keys, charges) : undefined
    if (groups === undefined || groups.length === 1) await this.#send({ mode, keys, charges, units: [] })
    else await this.#takeBySlot(groups, mode)
    return undefined
  }

  async adjust(charges: readonly Charge[], units: readonly number[]): Promise<void> {
    const sent: Promise<void>[] = []
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      if (units[i] === 0) continue
      sent.push(this.#send({ mode: 'adjust', keys: [this.#key(charge.policy.limiter, charge.key)], charges: [charge], units: [units[i]!] }))
    }
    await Promise.all(sent)
  }

  forget(limiter: string, key: string): Promise<void> {
    return this.#send({ mode: 'forget', keys: [this.#key(limiter, key)], charges: [], units: [] })
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  /**
   * Slot by slot: what one slot admits is reserved, and given back when a later one denies. For a moment too much may be
   * denied; never is too much admitted.
   */
  async #takeBySlot(groups: readonly Group[], mode: TakeMode): Promise<void> {
    let denied: number | undefined
    for (const [i, group] of groups.entries()) {
      await this.#send({ ...group, mode: denied === undefined ? mode : refusing(mode), units: [] })
      if (denied === undefined && group.charges.some(vetoes)) denied = i
    }
    if (denied === undefined) return
    for (const group of groups.slice(0, denied).reverse()) await this.#withdraw(group, mode)
  }

  /** Another slot has denied: gives back what this one reserved, and reports what it holds without it. */
  async #withdraw(group: Group, mode: TakeMode): Promise<void> {
    if (mode === 'consume') await this.adjust(group.charges, group.charges.map(givenBack))
    const free = group.charges.map(({ policy, key }) => new Charge(policy, key, 0))
    await this.#send({ ...group, charges: free, mode: 'peek', units: [] })
    for (const [i, charge] of group.charges.entries()) {
      charge.delay = 0
      charge.receipt(0, 0)
      if (!charge.allowed) continue
      charge.remaining = free[i]!.remaining
      charge.resetAfter = free[i]!.resetAfter
    }
  }

  #key(limiter: string, key: string): string {
    return `${this.#prefix}${limiterText(limiter)}:${keyText(key)}`
  }

  /** Sends at once when nothing is under way; what is asked meanwhile travels together when this turn of the event loop ends. */
  #send(transaction: Transaction): Promise<void> {
    if (this.#closed) return Promise.reject(new SluiceError('STORE_CLOSED', 'This store has been closed'))
    return new Promise((resolve, reject) => {
      this.#pending.push({ transaction, resolve, reject })
      if (this.#underWay === 0) this.#flush()
      else if (!this.#scheduled) {
        this.#scheduled = true
        setImmediate(() => this.#flush())
      }
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
    if (!this.#runner.cluster) return [pending]
    const groups = new Map<number, Pending[]>()
    for (const each of pending) {
      const slot = calculateSlot(each.transaction.keys[0]!)
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
      batch.settle(await this.#call(batch))
      for (const { resolve } of group) resolve()
    } catch (error) {
      const failure = new SluiceError('STORE_FAILED', `Redis could not decide: ${String((error as Error)?.message ?? error)}`, { cause: error })
      for (const { reject } of group) reject(failure)
    } finally {
      this.#underWay--
    }
  }

  async #call(batch: Batch): Promise<readonly unknown[]> {
    const { text, sha } = this.#scriptFor(batch)
    const args = batch.arguments(this.#now(), this.#clock === undefined ? SLACK : SLACK_OF_FOREIGN_CLOCK)
    try {
      return (await this.#runner.evalsha(sha, batch.keys, args)) as readonly unknown[]
    } catch (error) {
      if (!String((error as Error)?.message).includes('NOSCRIPT')) throw error
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

  #now(): string {
    return this.#clock === undefined ? '' : String(microseconds(this.#clock))
  }
}

/** The charges of a transaction whose keys share a slot. */
interface Group {
  readonly keys: string[]
  readonly charges: Charge[]
}

function bySlot(keys: readonly string[], charges: readonly Charge[]): Group[] {
  const groups = new Map<number, Group>()
  for (const [i, key] of keys.entries()) {
    const slot = calculateSlot(key)
    const group = groups.get(slot) ?? { keys: [], charges: [] }
    group.keys.push(key)
    group.charges.push(charges[i]!)
    groups.set(slot, group)
  }
  return [...groups.values()]
}

function vetoes({ allowed, limit }: Charge): boolean {
  return !allowed && limit.shadow !== true
}

function refusing(mode: TakeMode): Mode {
  return mode === 'peek' ? 'peek' : 'refuse'
}

/** A strict limit keeps what it was charged although the request is denied. */
function givenBack({ limit, charged }: Charge): number {
  return limit.strict === true || charged === 0 ? 0 : -charged
}

/** Printable, and without the characters that would end it or make a hash tag. */
function limiterText(limiter: string): string {
  return limiter.replaceAll(/[%:{}]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)
}

/** Lone surrogates have no UTF-8: such a key is written as JSON, and so is one that could be taken for it. */
function keyText(key: string): string {
  return key.startsWith('"') || !isWellFormed(key) ? JSON.stringify(key) : key
}

function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed()
}
