import type { Socket } from 'node:net'

/**
 * The kinds of frames:
 * - `hello`: a process sends its identity, or the server begins to read requests
 * - `ask`, `answer`: a message for a store, and the answer with the same number
 * - `counts`, `heir`: some counts of the server, and the end of the counts, after which the receiver becomes the server
 * - `taken`: the receiver has become the server
 * - `left`: the server leaves. Requests without an answer were not processed
 */
export type FrameKind = 'hello' | 'ask' | 'answer' | 'counts' | 'heir' | 'taken' | 'left'

/** The most bytes of a frame that a server reads. A message has 65,536 UTF-16 characters. A character takes at most three bytes. */
const MOST_ASKED = 200_000
/** The most bytes of a frame that a client reads. The counts of one key take 4 MiB at most. */
const MOST_ANSWERED = 8 << 20
/** When more characters wait to be sent to a process, the server reads nothing more from it. */
const MOST_UNSENT = 256 << 10
const LINE_END = '\n'.charCodeAt(0)
const NOTHING = Buffer.alloc(0)

/** Receives the events of a connection. */
export interface Listener {
  /** A frame has arrived. If this function throws, the connection ends. */
  receive(kind: FrameKind, id: number, body: unknown): void
  /** The connection has ended, on either side. */
  ended(): void
}

/**
 * A connection that carries frames. Each frame is a line of JSON: its kind, a number, and its body. The frames of one turn of the event loop are sent
 * together. The connection ends if a frame is too large, has an unknown kind or is not JSON. A connection does not keep the process alive.
 */
export class Connection {
  readonly #socket: Socket
  readonly #most: number
  readonly #listener: Listener
  readonly #isServer: boolean
  /** The first bytes of a frame whose end has not arrived. */
  #rest: Buffer = NOTHING
  #isCorked = false

  constructor(socket: Socket, listener: Listener, isServer: boolean) {
    this.#socket = socket
    this.#listener = listener
    this.#isServer = isServer
    this.#most = isServer ? MOST_ASKED : MOST_ANSWERED
    socket.unref()
    socket.on('data', this.#read)
    // The event 'close' follows.
    socket.on('error', () => undefined)
    socket.once('close', () => listener.ended())
    if (isServer) socket.on('drain', () => socket.resume())
  }

  /** The number of characters that wait to be sent. */
  get unsent(): number {
    return this.#socket.writableLength
  }

  /** True while so much waits to be sent that the sender should pause. */
  get isFull(): boolean {
    return this.unsent > MOST_UNSENT
  }

  send(kind: FrameKind, id: number, body: unknown): void {
    this.sendText(kind, id, JSON.stringify(body))
  }

  /** Sends a body that is JSON already. */
  sendText(kind: FrameKind, id: number, body: string): void {
    const socket = this.#socket
    if (!socket.writable) return
    if (!this.#isCorked) {
      this.#isCorked = true
      socket.cork()
      setImmediate(this.flush)
    }
    socket.write(`["${kind}",${id},${body}]\n`)
    if (this.#isServer && this.isFull) socket.pause()
  }

  /** Sends the frames of this turn now. */
  readonly flush = (): void => {
    if (this.#isCorked) this.#socket.uncork()
    this.#isCorked = false
  }

  /** Reads from a connection that was paused. */
  resume(): void {
    this.#socket.resume()
  }

  /** Sends the waiting frames, and ends the connection. */
  end(): void {
    this.flush()
    this.#socket.end()
  }

  close(): void {
    this.#socket.destroy()
  }

  readonly #read = (chunk: Buffer): void => {
    try {
      let start = 0
      for (let end = chunk.indexOf(LINE_END); end !== -1; end = chunk.indexOf(LINE_END, start)) {
        const frame = this.#with(chunk.subarray(start, end))
        this.#rest = NOTHING
        start = end + 1
        this.#receive(frame)
      }
      this.#rest = this.#with(chunk.subarray(start))
    } catch {
      this.close()
    }
  }

  /** Returns the bytes of a frame that have arrived. */
  #with(bytes: Buffer): Buffer {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    if (all.length > this.#most) throw new Error('The frame is too large')
    return all
  }

  #receive(frame: Buffer): void {
    const [kind, id, body] = JSON.parse(frame.toString()) as [FrameKind, unknown, unknown]
    if (typeof id !== 'number') throw new Error('The frame has no number')
    this.#listener.receive(kind, id, body)
  }
}
