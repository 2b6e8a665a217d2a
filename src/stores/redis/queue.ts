import calculateSlot from 'cluster-key-slot'
import { type ScriptClient, serverOf } from './clients.ts'
import {
  failure,
  isAcrossSlots,
  isFromClient,
  isFunctionMissing,
  isRefusedForGood,
  isRefusedForNow,
  isScriptMissing,
  isWithoutFunctions,
} from './failure.ts'
import { type Program, programFor } from './library.ts'
import type { Connection } from './place.ts'
import type { Algorithm } from '../../algorithms/algorithm.ts'
import { background, type Clock, microseconds, steadyClock } from '../../util/clock.ts'
import { madeOnce } from '../../util/copies.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import { ScriptRequest, type Transaction, transactionOf } from './request.ts'
import { Silence } from './silence.ts'
import { limitFromData } from '../../engine/limit.ts'
import { Charge, createPolicy, type DecisionMode, denies, type Policy } from '../store.ts'

/** Milliseconds for which scripts replace functions after the server has refused a function because it might write. */
const REFUSED = 1000
/**
 * The most milliseconds before a missing library is loaded. The delay is random, so that several processes load it one after another. It doubles while
 * loads follow one another within ten seconds.
 */
const FIRST_DELAY = 50
const LONGEST_DELAY = 5000
const QUIET = 10_000

/**
 * Runs a program: as a function if the server has functions, otherwise as a script. Both do the same. A call is only sent a second time if the server has said
 * that the first call did not run.
 */
class Runner {
  readonly #client: ScriptClient
  #hasFunctions: boolean
  #refusedUntil = 0
  /** The program whose library is being loaded. */
  #loading: string | undefined
  #lastLoad = -Infinity
  /** The number of loads that followed one another. */
  #loads = 0
  /** The hash of the script whose text was sent to the server. */
  #sentText: string | undefined

  constructor(client: ScriptClient) {
    this.#client = client
    this.#hasFunctions = client.load !== undefined
  }

  async run(program: Program, isPeek: boolean, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    if (!this.#callsFunctions(program)) return this.#evaluate(program, keys, args)
    try {
      return await this.#client.call('fcall', isPeek ? program.peekName : program.name, keys, args)
    } catch (error) {
      if (!this.#hasNotRun(program, error)) throw error
      return this.#evaluate(program, keys, args)
    }
  }

  #callsFunctions({ name }: Program): boolean {
    if (!this.#hasFunctions || this.#loading === name) return false
    return this.#refusedUntil === 0 || performance.now() >= this.#refusedUntil
  }

  /** Returns true if the server has refused a function before it ran. Prepares what later calls use. */
  #hasNotRun(program: Program, error: unknown): boolean {
    if (isFunctionMissing(error)) void this.#load(program)
    else if (isWithoutFunctions(error)) this.#hasFunctions = false
    else if (isRefusedForNow(error)) this.#refusedUntil = performance.now() + REFUSED
    else return false
    return true
  }

  /** Loads the library on all primaries after a delay. Until then, scripts are used. */
  async #load({ name, library }: Program): Promise<void> {
    if (this.#loading === name) return
    this.#loading = name
    await new Promise<void>((resolve) => void background(Math.random() * this.#delay(), resolve))
    try {
      const results = await Promise.allSettled(this.#client.load!(library))
      const refused = results.some((each) => each.status === 'rejected' && isRefusedForGood(each.reason))
      if (refused) this.#hasFunctions = false
    } catch {
      // The client has thrown an error, such as one that is closed. The next call of a missing function loads again.
    } finally {
      if (this.#loading === name) this.#loading = undefined
    }
  }

  #delay(): number {
    const now = performance.now()
    this.#loads = now - this.#lastLoad < QUIET ? this.#loads + 1 : 0
    this.#lastLoad = now
    return Math.min(FIRST_DELAY * 2 ** this.#loads, LONGEST_DELAY)
  }

  async #evaluate({ sha, script }: Program, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    if (this.#client.sendsText && this.#sentText !== sha) {
      const reply = await this.#client.call('eval', script, keys, args)
      this.#sentText = sha
      return reply
    }
    try {
      return await this.#client.call('evalsha', sha, keys, args)
    } catch (error) {
      if (!isScriptMissing(error)) throw error
      return this.#client.call('eval', script, keys, args)
    }
  }
}

/** A transaction that waits for its reply. */
export interface Pending extends Transaction {
  resolve(): void
  reject(reason: unknown): void
}

/** The most transactions in one call. Redis does nothing else while a call runs. */
const LARGEST_CALL = 64
/** The most numbers that are tried as a tag. One in 16,384 belongs to a given slot. */
const MOST_TAGS = 1_000_000
/** The number of calls into which waiting transactions are divided, so that this process and Redis work at the same time. */
const CALLS = 2

/** Sends transactions to Redis: the transactions of one turn of the event loop in a few calls. In a cluster, each slot has its own calls. */
export class RedisQueue {
  readonly #client: ScriptClient
  readonly #runner: Runner
  /** `undefined` for a client that cannot look for its servers. */
  readonly #silence: Silence | undefined
  readonly #clock: Clock | undefined
  readonly #connection: Connection
  readonly #algorithms = new Set<Algorithm>()
  /** True when keys of one call must share a slot. */
  #inCluster: boolean
  #program: Program | undefined
  /** The tags that put a key into a slot. */
  readonly #tags = new Map<number, number>()
  #pending: Pending[] = []
  #underWay = 0
  /** Milliseconds by which the clock of the server was ahead of the clock of this process at the latest reply. */
  #ahead = 0
  #asked = 0

  /** @param clock the clock of the user. Default: the clock of the server */
  constructor(connection: Connection, clock: Clock | undefined) {
    const { scripts: client } = connection
    this.#connection = connection
    this.#client = client
    this.#inCluster = client.cluster
    this.#runner = new Runner(client)
    this.#silence = client.lookAgain && new Silence((key) => serverOf(client, key), client.lookAgain)
    this.#clock = clock
  }

  close(): void {
    this.#silence?.close()
  }

  /** Returns the time by which the server decides, in epoch milliseconds. Before the first reply, it is the time of this process. */
  now(): number {
    return this.#clock === undefined ? steadyClock.now() + this.#ahead : microseconds(this.#clock) / 1000
  }

  get inCluster(): boolean {
    return this.#inCluster
  }

  slotOf(key: string): number {
    return calculateSlot(this.#client.keyPrefix + key)
  }

  /**
   * Returns a key that is written together with another key. It has no colon after the prefix, so it belongs to no limiter. In a cluster, it has a tag that
   * puts it into the same slot. The tag is a number that is found by trying.
   */
  besides(key: string, prefix: string, name: string): string {
    if (!this.inCluster) return `${prefix}${name}`
    const slot = this.slotOf(key)
    for (let tag = this.#tags.get(slot) ?? 0; tag < MOST_TAGS; tag++) {
      const beside = `${prefix}{${tag.toString(36)}}${name}`
      if (this.slotOf(beside) !== slot) continue
      this.#tags.set(slot, tag)
      return beside
    }
    throw new SluiceError('STORE_REJECTED', `No key of slot ${slot} begins with ${shown(prefix)}`)
  }

  shareSlot(keys: readonly string[]): boolean {
    for (let i = 1; i < keys.length; i++) {
      if (keys[i] !== keys[0] && this.slotOf(keys[i]!) !== this.slotOf(keys[0]!)) return false
    }
    return true
  }

  /**
   * Sends a transaction, after earlier transactions of the same slot. While fewer than two calls are under way, it is sent with `nextTick`, with others of
   * the same event. Otherwise it is sent when this turn of the event loop ends.
   */
  send(transaction: Transaction): Promise<void> {
    return new Promise<void>((resolve, reject) => this.enqueue({ ...transaction, resolve, reject }))
  }

  /** Sends a transaction without a promise. */
  enqueue(pending: Pending): void {
    if (this.#pending.push(pending) === 1) this.#schedule()
  }

  /** Sends several transactions in their order. Waits for all of them, even if one has failed, so that none is under way after that. */
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

  /** Groups the transactions that can share a call. In a cluster, these have the same slot. */
  #groups(pending: readonly Pending[]): Iterable<readonly Pending[]> {
    if (!this.inCluster) return [pending]
    const groups = new Map<number, Pending[]>()
    for (const each of pending) {
      const slot = this.slotOf(each.keys[0]!)
      madeOnce(groups, slot, (): Pending[] => []).push(each)
    }
    return groups.values()
  }

  async #run(group: readonly Pending[]): Promise<void> {
    this.#underWay++
    this.#asked += group.length
    const ended = this.#silence?.sent(group[0]!.keys[0]!)
    let isAnswered = true
    try {
      const request = new ScriptRequest(group)
      const reply = await this.#call(request)
      this.#ahead = Number(reply[0]) / 1000 - steadyClock.now()
      this.#connection.errors.clear()
      request.settle(reply, (i, failed) => {
        if (failed === undefined) group[i]!.resolve()
        else group[i]!.reject(failed)
      })
      if (this.#clock === undefined && performance.now() >= this.#connection.kept.due) this.#checkKept(group)
    } catch (error) {
      isAnswered = !isFromClient(error)
      if (this.#isAcross(group, error)) for (const pending of group) this.enqueue(pending)
      else for (const pending of group) pending.reject(failure(error, this.#connection.errors.lost))
    } finally {
      ended?.(isAnswered)
      this.#underWay--
      this.#asked -= group.length
    }
  }

  /** Checks whether the server of a call keeps its keys, by a key that is kept as long as the states of this call. */
  #checkKept(group: readonly Pending[]): void {
    const { kept, prefix } = this.#connection
    const states = group.flatMap(({ charges }) => charges.map(({ resetAfter }) => resetAfter))
    const nameOf = (): string => this.besides(group[0]!.keys[0]!, prefix, `kept-${crypto.randomUUID()}`)
    void kept.check(Math.max(0, ...states), nameOf)
  }

  /**
   * Returns true if a client for one server turns out to be connected to a cluster, which has refused transactions of several slots in one call. They have
   * not run, so they are sent again, slot by slot.
   */
  #isAcross(group: readonly Pending[], error: unknown): boolean {
    if (!isAcrossSlots(error)) return false
    this.#inCluster = true
    return !this.shareSlot(group.map(({ keys }) => keys[0]!))
  }

  async #call(request: ScriptRequest): Promise<readonly unknown[]> {
    const args = request.arguments(this.#clock && microseconds(this.#clock))
    const reply = await this.#runner.run(this.#programFor(request), request.isPeek, request.keys, args)
    if (Array.isArray(reply)) return reply as readonly unknown[]
    throw new TypeError(
      `The client returned ${shown(reply)}, and not the answer of the script: it is in a transaction (MULTI), or it is a pipeline. Give redisStore a client of its own`,
    )
  }

  /** Returns one program for all algorithms that this store has used. */
  #programFor(request: ScriptRequest): Program {
    const known = this.#algorithms.size
    for (const each of request.algorithms) this.#algorithms.add(each)
    if (this.#program === undefined || this.#algorithms.size > known) this.#program = programFor([...this.#algorithms])
    return this.#program
  }
}

/** The charges of a transaction whose keys share a slot. */
interface Group {
  readonly keys: readonly string[]
  readonly charges: readonly Charge[]
}

/** Groups charges and their keys by slots. Keeps their order. */
export function bySlot(queue: RedisQueue, keys: readonly string[], charges: readonly Charge[]): Group[] {
  if (!queue.inCluster || keys.length === 1) return [{ keys, charges }]
  const groups = new Map<number, { keys: string[]; charges: Charge[] }>()
  for (const [i, key] of keys.entries()) {
    const group = madeOnce(groups, queue.slotOf(key), () => ({ keys: [], charges: [] }))
    group.keys.push(key)
    group.charges.push(charges[i]!)
  }
  return [...groups.values()]
}

/**
 * Decides slot by slot. The units of a slot that admits are reserved, and refunded if a later slot denies or does not answer. For a moment, other requests
 * may be denied too early. It never admits too many requests.
 */
export async function takeBySlot(queue: RedisQueue, groups: readonly Group[], mode: DecisionMode): Promise<void> {
  const reserved: Group[] = []
  let denied = false
  for (const group of groups) {
    try {
      await queue.send(transactionOf(denied && mode === 'consume' ? 'refuse' : mode, group.keys, group.charges))
    } catch (error) {
      await Promise.allSettled(reserved.map((each) => queue.sendAll(releaseOf(each, []))))
      throw error
    }
    const isDenied = group.charges.some(denies)
    // A peek asks a later slot as if no slot had denied.
    if (!isDenied && (!denied || mode === 'peek')) reserved.push(group)
    denied ||= isDenied
  }
  if (!denied) return
  for (const group of reserved.toReversed()) await release(queue, group, mode)
}

/**
 * Refunds the reservation of a slot because another slot has denied. Reports the state of the slot without the reservation. A strict limit keeps its
 * charge, so it reports for how long it denies from now on.
 */
async function release(queue: RedisQueue, group: Group, mode: DecisionMode): Promise<void> {
  const { keys, charges } = group
  const free = charges.map(({ policy, key }) => new Charge(policy, key, 0))
  const kept = charges.filter(({ limit, charged }) => limit.strict === true && charged > 0)
  const next = kept.map(({ policy, key, cost }) => new Charge(plainPolicy(policy), key, cost))
  const peeks = [transactionOf('peek', keys, free)]
  const keptKeys = keys.filter((_, i) => kept.includes(charges[i]!))
  if (kept.length > 0) peeks.push(transactionOf('peek', keptKeys, next))
  await queue.sendAll(mode === 'consume' ? releaseOf(group, peeks) : peeks)
  for (const [i, charge] of kept.entries()) charge.retryAfter = next[i]!.retryAfter
  for (const [i, charge] of charges.entries()) {
    charge.delay = 0
    charge.markCharged(0, 0)
    // A peek reports a strict limit with the charge that a request would leave.
    if (!charge.allowed || (mode === 'peek' && charge.limit.strict === true)) continue
    charge.remaining = free[i]!.remaining
    charge.resetAfter = free[i]!.resetAfter
  }
}

/** Returns a policy that reads the same state, and neither charges denials nor locks keys out. */
function plainPolicy({ limiter, limit, store, home }: Policy): Policy {
  const { strict: _strict, block: _block, ...data } = limit
  return createPolicy(limiter, limitFromData(data), store, home)
}

function releaseOf(group: Group, then: readonly Transaction[]): Transaction[] {
  return [transactionOf('release', group.keys, group.charges, group.charges.map(givenBack)), ...then]
}

/** Returns the units of a refund. A strict limit keeps its charge although the request is denied. */
function givenBack({ limit, charged }: Charge): number {
  return limit.strict === true || charged === 0 ? 0 : -charged
}
