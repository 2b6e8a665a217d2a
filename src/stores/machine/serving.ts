import type { Server, Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import type { StoreAnswer, StoreMessage } from '../remote/message.ts'
import { serveStore } from '../remote/serve.ts'
import type { SyncStore } from '../store.ts'
import { Connection, type FrameKind, type Listener } from './connection.ts'
import { sendCounts } from './counts.ts'

/** The most processes and threads that are served. Further connections are closed. */
const MOST_PEERS = 512
/** Milliseconds between two checks of a process that takes the counts over, and for which it may do nothing. */
const LOOK = 2
const PATIENCE = 2000
/** The same for a process that is not the last one that can take the counts. PM2 kills a process 1600 milliseconds after its signal to end. */
const SHORT_PATIENCE = 700
/** Milliseconds in which processes that have just connected send their identity. One that still loads its program needs longer. */
const GREETING = 100
/** Milliseconds in which the processes of a server connect to its heir. They are fewer than the 1600 after which PM2 kills a process that ends. */
const RECONNECT = 1000

/** A process or a thread that is served. */
class Peer implements Listener {
  readonly connection: Connection
  /** The number of the process, and the epoch milliseconds of its start. Set when the process has sent them. */
  pid: number | undefined
  born = 0
  hasTaken = false
  isThere = true
  readonly #serving: Serving

  constructor(socket: Socket, serving: Serving) {
    this.#serving = serving
    this.connection = new Connection(socket, this, true)
  }

  greet(): void {
    this.connection.send('hello', 0, true)
    this.connection.resume()
  }

  receive(kind: FrameKind, id: number, body: unknown): void {
    if (kind === 'ask') void this.#answer(id, body)
    else if (kind === 'hello') [this.pid, this.born] = (body as readonly unknown[]).map(Number) as [number, number]
    else if (kind === 'taken') this.hasTaken = true
    else throw new Error(`A process that is served has sent ${kind}`)
  }

  ended(): void {
    this.isThere = false
    this.#serving.peers.delete(this)
  }

  /** Answers a message. A server that leaves answers no more, so the process sends the message to the next server. */
  async #answer(id: number, message: unknown): Promise<void> {
    if (this.#serving.isLeaving) return
    this.connection.send('answer', id, await this.#serving.answer(message))
  }

  /** Waits until the process has done something. Returns false if it ends, or does nothing for too long. */
  async until(isDone: () => boolean, patience: number = PATIENCE): Promise<boolean> {
    for (const end = performance.now() + patience; !isDone();) {
      if (!this.isThere || performance.now() > end) return false
      await pause(LOOK)
    }
    return true
  }
}

/** A process that counts for the others. */
export class Serving {
  readonly memory: SyncStore
  readonly peers: Set<Peer> = new Set<Peer>()
  /** True if something may have been counted since this field was set to false. */
  isChanged: boolean
  isLeaving = false
  #server: Server
  readonly #answer: (message: unknown) => Promise<StoreAnswer>
  /** The time until which other processes may still connect, in milliseconds of `performance.now()`. */
  readonly #alone: number
  #isReading = false

  /**
   * @param server a server whose connections are paused
   * @param isHeir true if this process takes the place of a server, whose processes connect to it soon
   */
  constructor(server: Server, memory: SyncStore, isHeir: boolean) {
    this.#alone = isHeir ? performance.now() + RECONNECT : 0
    this.memory = memory
    // No file has the latest counts of the last server.
    this.isChanged = isHeir
    this.#answer = serveStore(memory)
    this.#server = this.#accepting(server)
  }

  #accepting(server: Server): Server {
    server.maxConnections = MOST_PEERS
    server.unref()
    return server.on('connection', (socket) => {
      const peer = new Peer(socket, this)
      this.peers.add(peer)
      if (this.#isReading) peer.greet()
    })
  }

  /** Accepts connections at another server. Those of the first one stay. */
  moveTo(server: Server): void {
    this.#server.close()
    this.#server = this.#accepting(server)
  }

  /** Does the operations of a message. A message without operations only asks whether this process answers. */
  answer(message: unknown): Promise<StoreAnswer> {
    if ((Object(message) as Partial<StoreMessage>).operations?.length !== 0) this.isChanged = true
    return this.#answer(message)
  }

  /** The processes that have sent their identity, so that they can take the counts. */
  get heirs(): Peer[] {
    return [...this.peers].filter(({ pid }) => pid !== undefined)
  }

  /** Begins to read the messages of the processes. */
  read(): void {
    this.#isReading = true
    for (const peer of this.peers) peer.greet()
  }

  /**
   * Stops answering, and hands the counts over to the youngest process. If this process does not take them, the next one gets them.
   * @param file identifies the file that the other process replaces
   */
  async handOver(file: string | undefined): Promise<boolean> {
    this.isLeaving = true
    // Earlier messages are answered first.
    await nextTurn()
    while (this.peers.size === 0 && performance.now() < this.#alone) await pause(LOOK)
    await this.#greeted()
    const heirs = this.heirs.toReversed()
    // Another thread of this process will probably end with it.
    const isOther = ({ pid }: Peer): number => Number(pid !== process.pid)
    heirs.sort((one, other) => isOther(other) - isOther(one) || other.born - one.born)
    const asked: Peer[] = []
    for (const heir of heirs) {
      asked.push(heir)
      const patience = asked.length < heirs.length ? SHORT_PATIENCE : PATIENCE
      if (await this.#handOverTo(heir, asked, file, patience)) return true
    }
    return false
  }

  /** Waits until the processes have sent their identity. If at least one has, it waits only for a short time for the others. */
  async #greeted(): Promise<void> {
    for (const began = performance.now(); this.heirs.length < this.peers.size; await pause(LOOK)) {
      const patience = this.heirs.length > 0 ? GREETING : PATIENCE
      if (performance.now() - began > patience) return
    }
  }

  /** @param asked the processes that were asked, with `heir`. One of them may still take the counts after it was passed over */
  async #handOverTo(heir: Peer, asked: readonly Peer[], file: string | undefined, patience: number): Promise<boolean> {
    const { connection } = heir
    heir.hasTaken = false
    const isSent = await sendCounts(this.memory, async (batch) => {
      connection.sendText('counts', 0, batch)
      return heir.until(() => !connection.isFull, patience)
    })
    // A named pipe cannot be replaced, so it must be closed first.
    if (isSent && file === undefined) this.#server.close()
    if (isSent) connection.send('heir', 0, file ?? null)
    return isSent && heir.until(() => asked.some(({ hasTaken }) => hasTaken), patience)
  }

  /** Tells all processes that messages without an answer were not processed. Waits until they have disconnected. */
  async leave(): Promise<void> {
    this.#server.close()
    for (const { connection } of this.peers) {
      connection.send('left', 0, true)
      connection.end()
    }
    await Promise.all(Array.from(this.peers, (peer) => peer.until(() => !peer.isThere)))
    this.stop()
  }

  /** Ends all connections at once. */
  stop(): void {
    this.isLeaving = true
    this.#server.close()
    for (const { connection } of this.peers) connection.close()
  }
}
