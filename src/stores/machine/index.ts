/**
 * All processes of one machine share limits, without a server: `node:cluster`, PM2, worker threads, and processes that were started apart. One of them
 * counts in memory, and the others ask it over a socket file.
 *
 * @example
 * import { machineStore } from 'sluice/machine'
 *
 * const store = machineStore()
 * @module
 */
import type { Server, Socket } from 'node:net'
import { resolve } from 'node:path'
import { background, type Clock, clockGiven, steadyClock } from '../../util/clock.ts'
import { brand, shared, WeakValues } from '../../util/copies.ts'
import { SluiceError, whyOf } from '../../util/errors.ts'
import { quietly } from '../../util/quietly.ts'
import { knownOptions, refuse } from '../../util/validate.ts'
import { rareWarning, warn } from '../../util/warn.ts'
import { checkedMaxKeys, standInStore } from '../memory/index.ts'
import type { StoreMessage } from '../remote/message.ts'
import { remoteStore } from '../remote/remote.ts'
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
  type SyncStore,
} from '../store.ts'
import { wrappers } from '../wrappers.ts'
import { Connection, type FrameKind, type Listener } from './connection.ts'
import { readSnapshot, Restoring, writeSnapshot, writeSnapshotNow } from './counts.ts'
import { Serving } from './serving.ts'
import { SocketFile } from './socket-file.ts'

/** Options of `machineStore`. All processes need the same. */
export interface MachineStoreOptions {
  /**
   * The name of a socket file, such as `'/run/shop/limits'`. Processes with the same name share their limits. The user and the machine are added to the
   * name. The folder must belong to the user of the process, and other users must have no access (mode 0700). It is created if it does not exist.
   * Default: a file in the folder for temporary files. All processes of this user that were started in the same folder share it.
   */
  readonly path?: string
  /**
   * The name of a file that keeps the counts, such as `'limits.json'`. It is written about twice a second while something is counted, and at the end, also in
   * `process.exit()`. If the process that counts is killed, at most the counts of the last second are lost, and with a million keys those of the last
   * seconds. A restart loses none. Default: counts are only in memory.
   */
  readonly snapshot?: string
  /** The most keys that each limit remembers: see `memoryStore`. Default: a million. */
  readonly maxKeys?: number
  /** Epoch milliseconds, fractions allowed. Default: a clock that never steps back. */
  readonly clock?: Clock
}

/** The least and the most milliseconds between two attempts to connect or to bind. */
const PAUSE = 20
const LONGEST_PAUSE = 250
/** Milliseconds between two checks whether the file still exists, and between two snapshots. */
const LOOK = 500
const SNAPSHOT = 500
/** Milliseconds for which a message waits for its answer. */
const TIMEOUT = 5000
/** The most operations that wait for an answer. They take about 10 MB. */
const MOST_WAITING = 20_000
/** The most characters that wait to be sent. If the process that counts hangs, its operations expire, but their messages still wait for it. */
const MOST_UNSENT = 10_000_000

/** The place where the processes that share a file count. */
interface MachinePlace extends Place {
  readonly name: string
  /** Why there is no server now. */
  trouble: string | undefined
}

function placeAt(path: string): MachinePlace {
  const name = `the limits of this machine at ${path}`
  return ownPlace({ name, perOperation: PER_OPERATION, trouble: undefined as string | undefined })
}

/** The open stores of this process. */
const open = new Set<MachineStore>()

/** Hands counts over when the program has nothing left to do. The process goes on until that is done. */
function closeAll(): void {
  for (const store of open) void store.close()
}

/** Keeps counts when the process ends at once. Nothing can be sent then, but a file can be written. */
function keepAll(): void {
  for (const store of open) store.keepNow()
}

const places = shared('machine places', () => new WeakValues<MachinePlace>())

/**
 * Makes a store that all processes and threads of one machine share, without a server. The first process that makes one counts for all processes in
 * memory. The others ask it over a socket file. When it ends, another process takes its place within a second. After `close()`, and at the end of a
 * program that has nothing left to do, that process gets all counts. Otherwise it starts from the counts of `snapshot`, or without this option from zero,
 * with the warning `SLUICE_COUNTS_LOST`.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`, and `STORE_SETUP` if the folder of the socket file belongs to another user, if others may use it, or if it
 * cannot be made. A decision rejects with `STORE_FAILED` if the process that counts ends, or does not answer within five seconds. Adapters guard the
 * store.
 * @example app.use(rateLimit({ keyer: byIP, limits: perMinute(100), store: machineStore() }))
 */
export function machineStore(options: MachineStoreOptions = {}): AsyncStore {
  options = knownOptions('machineStore', options, ['path', 'snapshot', 'maxKeys', 'clock'])
  const { path, snapshot, maxKeys = 1_000_000, clock = steadyClock } = options
  checkedMaxKeys(maxKeys)
  clockGiven(clock)
  return new MachineStore(
    fileNamed('path', path),
    fileNamed('snapshot', snapshot),
    () => standInStore(maxKeys, clock),
    options.clock,
  )
}

function fileNamed(option: string, given: unknown): string | undefined {
  if (given === undefined || (typeof given === 'string' && given !== '' && !given.includes('\0'))) return given
  return refuse(option, 'the name of a file', given)
}

/** A message that waits for its answer. */
interface Ask {
  readonly message: StoreMessage
  /** Ends the wait. It keeps the process alive until then. */
  readonly timer: NodeJS.Timeout
  /** False while there is no server. */
  isSent: boolean
  /** @param answer the answer, or a promise of it */
  resolve(answer: unknown): void
  reject(error: unknown): void
}

/** The identity of this process, which it sends to a server. */
const SELF: readonly [pid: number, born: number] = [process.pid, Date.now() - 1000 * process.uptime()]

class MachineStore implements AsyncStore, Listener {
  readonly sync = false
  readonly answersAlways = false
  readonly wrappers = wrappers
  readonly place: MachinePlace
  readonly clock: StoreClock
  readonly #file: SocketFile
  /** The path of the file that keeps the counts. */
  readonly #snapshot: string | undefined
  readonly #newMemory: () => SyncStore
  /** Sends operations while this process does not count. */
  readonly #remote: AsyncStore
  /** Set while this process counts. */
  #serving: Serving | undefined
  /** Set while another process counts. */
  #connection: Connection | undefined
  /** Set while this process hands its counts over. */
  #leaving: Serving | undefined
  /** True after the first frame of the server. Before it, the server may not know this connection. */
  #isGreeted = false
  /** True once another process has counted. If this process begins without those counts, they are lost. */
  #wasServed = false
  /** The counts that a leaving server has sent so far. */
  #heritage: Restoring | undefined
  /** Resolves when this process counts, or is connected to the process that counts. */
  #meeting: Promise<void>
  /** The most milliseconds before the next attempt to connect or to bind. It grows until a server greets this process. */
  #pause = 0
  #wake: () => void = () => undefined
  readonly #asks = new Map<number, Ask>()
  #lastAsk = 0
  /** The number of operations in the messages that wait. */
  #waiting = 0
  #writing: Promise<void> = Promise.resolve()
  readonly #warnSnapshot = rareWarning('SLUICE_SNAPSHOT')
  #closing: Promise<void> | undefined

  constructor(
    path: string | undefined,
    snapshot: string | undefined,
    newMemory: () => SyncStore,
    clock: Clock | undefined,
  ) {
    this.#file = new SocketFile(path)
    this.place = places.of(this.#file.path, () => placeAt(this.#file.path))
    this.#snapshot = snapshot === undefined ? undefined : resolve(snapshot)
    this.#newMemory = newMemory
    this.#remote = remoteStore(this.#ask, { name: this.place.name, ...(clock && { clock }) })
    this.clock = this.#remote.clock
    this.#meeting = this.#meet()
    if (open.size === 0) process.on('beforeExit', closeAll).on('exit', keepAll)
    open.add(this)
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    const serving = this.#serving
    if (serving === undefined) return this.#remote.run(operation, reply)
    serving.isChanged = true
    return serving.memory.run(operation, reply)
  }

  /** Resolves when this process counts, or the process that counts has answered. */
  readonly ready = async (): Promise<void> => {
    if (this.#serving === undefined) await this.#remote.ready!()
  }

  /** If this process counts, hands the counts over to another process. */
  readonly close = (): Promise<void> => (this.#closing ??= this.#close())

  async #close(): Promise<void> {
    await this.#remote.close()
    this.#rejectAll(closed())
    this.#wake()
    await this.#meeting
    this.#leaving = this.#serving
    this.#serving = undefined
    this.#connection?.end()
    if (this.#leaving !== undefined) await this.#handOver(this.#leaving)
    open.delete(this)
    if (open.size === 0) process.off('beforeExit', closeAll).off('exit', keepAll)
  }

  async #handOver(serving: Serving): Promise<void> {
    await this.#writing
    // The wait for a process that takes the counts may be longer than this process may still live.
    if (serving.heirs.length === 0) await this.#write(serving)
    const isHandedOver = (await this.#hasFile(serving)) && (await serving.handOver(this.#file.id))
    if (!isHandedOver && serving.isChanged) await this.#write(serving)
    this.#leaving = undefined
    this.#file.leave()
    await serving.leave()
  }

  /** Writes the snapshot. Without this option, deletes the socket file if nothing was counted, so that no process says that counts are lost. */
  keepNow(): void {
    const serving = this.#serving ?? this.#leaving
    const snapshot = this.#snapshot
    if (serving === undefined || !this.#file.isOurs) return
    if (snapshot !== undefined) quietly(() => writeSnapshotNow(snapshot, serving.memory))
    else if (!serving.isChanged) this.#file.leave()
  }

  // The choice of the process that counts.

  /** Connects to the process that counts. If there is none, this process counts. */
  async #meet(): Promise<void> {
    for (;;) {
      if (this.#pause > 0) await this.#rest()
      if (this.#closing !== undefined || this.#serving !== undefined) return
      this.#pause = Math.min(2 * this.#pause || PAUSE, LONGEST_PAUSE)
      try {
        const met = await this.#file.meet()
        if ('socket' in met) this.#connect(met.socket)
        else await this.#begin(met.server, this.#wasServed || met.wasLeft)
        return
      } catch (error) {
        this.place.trouble = whyOf(error)
        // This error lasts until the folder is changed.
        if (error instanceof SluiceError && error.code === 'STORE_SETUP') this.#rejectAll(error)
      }
    }
  }

  #rest(): Promise<void> {
    return new Promise((wake) => {
      this.#wake = wake
      background(Math.random() * this.#pause, wake)
    })
  }

  #meetAgain(): void {
    this.#meeting = this.#meeting.then(() => this.#meet())
  }

  #connect(socket: Socket): void {
    this.place.trouble = undefined
    this.#connection = new Connection(socket, this, false)
    this.#connection.send('hello', 0, SELF)
  }

  /** Begins to count, from zero or from the snapshot. No request is answered before that. */
  async #begin(server: Server, isLost: boolean): Promise<void> {
    const serving = new Serving(server, this.#newMemory(), false)
    const restored = await this.#restored(serving.memory)
    if (restored !== undefined) warnLost(restored)
    else if (isLost && this.#snapshot === undefined)
      warnLost('The process that counted has ended, and its counts are lost. Keep them with the option `snapshot`')
    this.#serve(serving)
  }

  /** Reads the snapshot. Returns a text about the counts that are lost; `undefined` if there are none. */
  async #restored(memory: SyncStore): Promise<string | undefined> {
    const path = this.#snapshot
    try {
      const lost = path === undefined ? 0 : await readSnapshot(path, memory)
      return lost
        ? `${path} has ${lost} keys more than there is room for, or with algorithms that are not defined here`
        : undefined
    } catch (error) {
      return `${path} could not be read as a whole, and the other counts are lost: ${whyOf(error)}`
    }
  }

  #serve(serving: Serving): void {
    this.#serving = serving
    this.#wasServed = false
    this.place.trouble = undefined
    for (const [id, { message }] of this.#asks) this.#taken(id)!.resolve(serving.answer(message))
    serving.read()
    background(LOOK, () => void this.#look(serving))
    background(SNAPSHOT, () => void this.#keep(serving))
  }

  /** Stops if another process has replaced the file, or if it cannot be made again: other processes cannot find this process then, and may count themselves. */
  async #look(serving: Serving): Promise<void> {
    if (this.#serving !== serving) return
    if (await this.#hasFile(serving)) return void background(LOOK, () => void this.#look(serving))
    this.#serving = undefined
    serving.stop()
    warnLost(`${this.#file.path} was deleted or replaced. The counts of this process are lost`)
    this.#meetAgain()
  }

  /** Makes the file again if it was deleted. Returns false if another process has replaced it, or if it cannot be made. */
  async #hasFile(serving: Serving): Promise<boolean> {
    if (this.#file.isOurs) return true
    const restoring = this.#file.restore().catch(() => undefined)
    // A store that closes waits until then.
    this.#meeting = restoring.then(() => undefined)
    const server = await restoring
    if (server === undefined) return false
    serving.moveTo(server)
    return true
  }

  async #keep(serving: Serving): Promise<void> {
    // A snapshot from before the file was replaced may still be under way.
    await this.#writing
    if (this.#serving !== serving) return
    if (serving.isChanged) await (this.#writing = this.#write(serving))
    background(SNAPSHOT, () => void this.#keep(serving))
  }

  /** Writes the snapshot if this process still counts. */
  async #write(serving: Serving): Promise<void> {
    const snapshot = this.#snapshot
    if (snapshot === undefined || !this.#file.isOurs) return
    serving.isChanged = false
    try {
      await writeSnapshot(snapshot, serving.memory, () => this.#file.isOurs)
    } catch (error) {
      serving.isChanged = true
      this.#warnSnapshot(
        () => `${snapshot} could not be written: ${whyOf(error)}. If this process ends, counts are lost`,
      )
    }
  }

  // The functions that run while another process counts.

  receive(kind: FrameKind, id: number, body: unknown): void {
    if (kind === 'answer') this.#taken(id)?.resolve(body)
    else if (kind === 'hello') this.#greeted()
    else if (kind === 'counts') (this.#heritage ??= new Restoring(this.#newMemory())).add(body)
    else if (kind === 'heir') this.#meeting = this.#inherit(body)
    else if (kind === 'left') this.#leave()
    else throw new Error(`A server has sent ${kind}`)
  }

  #greeted(): void {
    this.#isGreeted = this.#wasServed = true
    this.#pause = 0
    for (const [id, ask] of this.#asks) this.#sendAsk(id, ask)
  }

  ended(): void {
    this.#connection = undefined
    this.#heritage = undefined
    const lost = new SluiceError('STORE_FAILED', 'The process that counted has ended before it has answered')
    this.#rejectAll(lost, ({ isSent }) => isSent)
    this.#isGreeted = false
    this.#meetAgain()
  }

  /** Takes the place of a server that leaves. Requests that the server has not answered were not processed. */
  async #inherit(file: unknown): Promise<void> {
    const heritage = this.#heritage
    if (heritage?.isComplete !== true || this.#closing !== undefined) return
    // The server keeps its counts if this fails, for example because this process may open no more files. It asks the next process.
    const server = await this.#file.replace(String(file)).catch(() => undefined)
    if (server === undefined) return
    this.#connection?.send('taken', 0, true)
    this.#connection?.flush()
    if (heritage.lost > 0)
      warnLost(`${heritage.lost} keys found no room, or their algorithms are not defined in this process`)
    this.#serve(new Serving(server, heritage.memory, true))
  }

  /** The server has left. Requests without an answer are sent to the next server, and so are those that come before this connection has ended. */
  #leave(): void {
    this.#isGreeted = false
    for (const ask of this.#asks.values()) ask.isSent = false
    this.#connection?.close()
  }

  readonly #ask = (message: StoreMessage): Promise<unknown> => {
    const serving = this.#serving
    if (serving !== undefined) return serving.answer(message)
    const operations = sizeOf(message)
    if (this.#waiting + operations > MOST_WAITING || (this.#connection?.unsent ?? 0) > MOST_UNSENT)
      return Promise.reject(
        new SluiceError('STORE_FAILED', `${MOST_WAITING} operations, or 10 MB, wait for the process that counts`),
      )
    return new Promise((resolve, reject) => {
      const id = (this.#lastAsk = (this.#lastAsk + 1) >>> 0)
      const timer = setTimeout(() => this.#taken(id)!.reject(this.#late), TIMEOUT)
      const ask: Ask = { message, timer, isSent: false, resolve, reject }
      this.#asks.set(id, ask)
      this.#waiting += operations
      this.#sendAsk(id, ask)
    })
  }

  #sendAsk(id: number, ask: Ask): void {
    if (!this.#isGreeted) return
    ask.isSent = true
    this.#connection!.send('ask', id, ask.message)
  }

  #taken(id: number): Ask | undefined {
    const ask = this.#asks.get(id)
    if (ask === undefined) return undefined
    clearTimeout(ask.timer)
    this.#asks.delete(id)
    this.#waiting -= sizeOf(ask.message)
    return ask
  }

  #rejectAll(error: SluiceError, isLost: (ask: Ask) => boolean = () => true): void {
    for (const [id, ask] of this.#asks) if (isLost(ask)) this.#taken(id)!.reject(error)
  }

  get #late(): SluiceError {
    const reason = this.place.trouble ?? `The process that counts has not answered for ${TIMEOUT / 1000} seconds`
    return new SluiceError('STORE_FAILED', reason)
  }
}

brand(MachineStore, STORE)

/** Returns the number of operations in a message, plus one for the message itself. */
function sizeOf({ operations }: StoreMessage): number {
  return operations.length + 1
}

function warnLost(what: string): void {
  warn('SLUICE_COUNTS_LOST', `${what}.`)
}
