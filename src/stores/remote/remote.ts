import { type Clock, clockGiven, steadyClock } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { messageOf, SluiceError } from '../../util/errors.ts'
import { boolean, knownOptions, optionalFunction, refuse } from '../../util/validate.ts'
import {
  type AsyncStore,
  closed,
  type Operation,
  ownPlace,
  PER_OPERATION,
  type Place,
  type Reply,
  STORE,
  type StoreClock,
  storeClock,
  Underway,
  type Wrappers,
} from '../store.ts'
import { wrappers } from '../wrappers.ts'
import { adopt, answersIn } from './answers.ts'
import { type Batch, batchesOf } from './batches.ts'
import { MESSAGE_VERSION, type StoreMessage } from './message.ts'

/** Options of `remoteStore`. */
export interface RemoteStoreOptions {
  /** The name of the place in warnings, such as `'limits of machine 4'`. Default: `'another process'`. */
  readonly name?: string
  /**
   * Returns the name of the part that decides about a key, such as a Durable Object. A message contains operations of one part, and a decision whose keys are
   * in several parts rejects with `STORE_REJECTED`. Default: there is one part.
   */
  readonly partOf?: (limiter: string, key: string) => string
  /**
   * True to send the operations of one turn of the event loop together. `false` sends each operation at once. Use it where a message may not outlive its
   * request, such as in Workers. Default true.
   */
  readonly batch?: boolean
  /** The clock of the store in the other place: for tests. */
  readonly clock?: Clock
}

/** Sends a message to the place that decides about `part`, to the function that `serveStore` has returned. Returns the answer of this function. */
export type SendMessage = (message: StoreMessage, part: string) => Promise<unknown>

/**
 * Makes a store whose operations are decided in another place: `send` sends a message there, `serveStore` processes it, and `send` resolves with the
 * answer. Messages and answers are plain data. A message has at most 64 kB as JSON. The operations of one turn of the event loop share messages. Times
 * are by the clock of the other place. Adapters guard the store.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if `send` rejects or resolves with something else than an answer, and with
 * the error of the store in the other place.
 * @example
 * const store = remoteStore(async (message) => {
 *   const response = await fetch('http://127.0.0.1:8081', { method: 'POST', body: JSON.stringify(message) })
 *   return response.json()
 * })
 */
export function remoteStore(send: SendMessage, options: RemoteStoreOptions = {}): AsyncStore {
  options = knownOptions('remoteStore', options, ['name', 'partOf', 'batch', 'clock'])
  const { name = 'another process', partOf, batch = true, clock } = options
  if (typeof send !== 'function') refuse('remoteStore', 'a function that sends a message', send)
  if (typeof name !== 'string') refuse('name', 'a text', name)
  optionalFunction('partOf', partOf)
  return new RemoteStore(send, ownPlace({ name, perOperation: PER_OPERATION, ...(partOf && { partOf }) }), {
    batch: boolean('batch', batch),
    hasParts: partOf !== undefined,
    clock: clock && clockGiven(clock),
    wrappers,
  })
}

class Waiting extends Underway {
  /** Checks an answer of the other place, and writes it into the operation. */
  async receive(given: unknown): Promise<void> {
    try {
      await this.done(adopt(this.operation, given))
    } catch (error) {
      this.fail(error)
    }
  }
}

/** The checked options of a remote store. */
export interface RemoteSettings {
  readonly batch: boolean
  /** True if the place has several parts. */
  readonly hasParts: boolean
  readonly clock: Clock | undefined
  readonly wrappers: Wrappers
}

export class RemoteStore implements AsyncStore {
  readonly sync = false
  readonly answersAlways = false
  readonly wrappers: Wrappers
  readonly place: Place
  readonly clock: StoreClock
  /** Resolves when the other place answers. Absent if the place has parts: an answer of one part says nothing about the others. */
  readonly ready: (() => Promise<void>) | undefined
  readonly #send: SendMessage
  readonly #isBatched: boolean
  /** The operations that wait for the end of this turn, by part. */
  readonly #waiting = new Map<string, Waiting[]>()
  /** Milliseconds by which the clock of the other place was ahead at the last answer. */
  #ahead = 0
  #isClosed = false

  constructor(send: SendMessage, place: Place, { batch, hasParts, clock, wrappers }: RemoteSettings) {
    this.#send = send
    this.#isBatched = batch
    this.wrappers = wrappers
    this.place = place
    this.ready = hasParts ? undefined : () => this.#check()
    this.clock = storeClock(clock, () => steadyClock.now() + this.#ahead)
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    const waiting = new Waiting(this, operation, reply)
    try {
      if (this.#isClosed) throw closed()
      const part = this.#partOf(operation)
      if (this.#isBatched) this.#add(part, waiting)
      else this.#sendAll(part, [waiting])
    } catch (error) {
      waiting.fail(error)
      return undefined
    }
    return () => waiting.giveUp()
  }

  readonly close = async (): Promise<void> => {
    this.#isClosed = true
    for (const waiting of this.#waiting.values()) for (const each of waiting) each.fail(closed())
    this.#waiting.clear()
  }

  #add(part: string, waiting: Waiting): void {
    if (this.#waiting.size === 0) queueMicrotask(this.#flush)
    const others = this.#waiting.get(part)
    if (others === undefined) this.#waiting.set(part, [waiting])
    else others.push(waiting)
  }

  readonly #flush = (): void => {
    const all = [...this.#waiting]
    this.#waiting.clear()
    for (const [part, waiting] of all) this.#sendAll(part, waiting)
  }

  #sendAll(part: string, waiting: readonly Waiting[]): void {
    for (const batch of batchesOf(waiting)) void this.#sendBatch(part, batch)
  }

  async #sendBatch(part: string, { message, sent }: Batch<Waiting>): Promise<void> {
    try {
      const { now, answers } = answersIn(await this.#ask(message, part), sent.length)
      this.#ahead = now - steadyClock.now()
      sent.forEach((each, i) => void each.receive(answers[i]))
    } catch (error) {
      for (const each of sent) each.fail(error)
    }
  }

  async #check(): Promise<void> {
    answersIn(await this.#ask({ sluice: MESSAGE_VERSION, policies: [], operations: [] }, ''), 0)
  }

  async #ask(message: StoreMessage, part: string): Promise<unknown> {
    try {
      return await this.#send(message, part)
    } catch (error) {
      if (error instanceof SluiceError) throw error
      throw new SluiceError('STORE_FAILED', `The other place does not answer: ${messageOf(error)}`, { cause: error })
    }
  }

  #partOf(operation: Operation): string {
    const { partOf } = this.place
    if (operation.kind === 'forget') return partOf(operation.limiter, operation.key)
    const [first, ...others] = operation.charges
    const part = first === undefined ? '' : partOf(first.limiter, first.key)
    if (others.every(({ limiter, key }) => partOf(limiter, key) === part)) return part
    throw new SluiceError('STORE_REJECTED', 'The keys of one decision are in several parts of a remote store')
  }
}

brand(RemoteStore, STORE)
