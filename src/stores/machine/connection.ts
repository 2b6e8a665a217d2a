import type { Socket } from 'node:net'

/**
 * The kinds of frames:
 * - `hello`: a process sends its identity, or the server begins to read requests
 * - `ask`, `answer`: a message for a store, and the answer with the same number
 * - `counts`, `heir`: some counts of the server, and the end of the counts, after which the receiver becomes the server
 * - `taken`: the receiver has become the server
 * - `left`: the server leaves. Requests without an answer were not processed
 */
const KINDS = ['hello', 'ask', 'answer', 'counts', 'heir', 'taken', 'left'] as const
export type FrameKind = (typeof KINDS)[number]

/** Bytes before the body of a frame: its length, its kind and a number. */
const HEAD = 9
/** The largest body that a server reads. A message has 65,536 UTF-16 characters. A character takes at most three bytes. */
const MOST_ASKED = 200_000
/** The largest body that a client reads. The counts of one key take 4 MiB at most. */
const MOST_ANSWERED = 8 << 20
/** When more bytes wait to be sent to a process, the server reads nothing more from it. */
const MOST_UNSENT = 256 << 10

/** Receives the events of a connection. */
export interface Listener {
  /** A frame has arrived. If this function throws, the connection ends. */
  receive(kind: FrameKind, id: number, body: unknown): void
  /** The connection has ended, on either side. */
  ended(): void
}

/**
 * A connection that carries frames of JSON. The frames of one turn of the event loop are sent together. The connection ends if a frame is too large, has
 * an unknown kind or is not JSON. A connection does not keep the process alive.
 */
export class Connection {
  readonly #socket: Socket
  readonly #most: number
  readonly #listener: Listener
  readonly #isServer: boolean
  readonly #head = Buffer.alloc(HEAD)
  /** The number of bytes of the head that have arrived. */
  #headLength = 0
  /** The body of a frame that has arrived in part, and the length of this part. */
  #body: Buffer | undefined
  #bodyLength = 0
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

  /** True while so many bytes wait to be sent that the sender should pause. */
  get isFull(): boolean {
    return this.#socket.writableLength > MOST_UNSENT
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
    const length = Buffer.byteLength(body)
    const frame = Buffer.allocUnsafe(HEAD + length)
    frame.writeUInt32BE(length, 0)
    frame.writeUInt8(KINDS.indexOf(kind), 4)
    frame.writeUInt32BE(id, 5)
    frame.write(body, HEAD)
    socket.write(frame)
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
      for (let at = 0; at < chunk.length;) at = this.#take(chunk, at)
    } catch {
      this.close()
    }
  }

  /** Reads bytes of a chunk from the offset `at`. Returns the offset after them. Memory for a body is only allocated if its length is allowed. */
  #take(chunk: Buffer, at: number): number {
    const head = this.#head
    if (this.#body !== undefined) {
      const taken = chunk.copy(this.#body, this.#bodyLength, at)
      this.#bodyLength += taken
      if (this.#bodyLength === this.#body.length) this.#receive(this.#body)
      return at + taken
    }
    const taken = chunk.copy(head, this.#headLength, at)
    this.#headLength += taken
    if (this.#headLength < HEAD) return at + taken
    const start = at + taken
    const length = head.readUInt32BE(0)
    if (length > this.#most) throw new Error('The frame is too large')
    if (chunk.length - start >= length) {
      this.#receive(chunk.subarray(start, start + length))
      return start + length
    }
    this.#body = Buffer.allocUnsafe(length)
    return start
  }

  #receive(body: Buffer): void {
    this.#body = undefined
    this.#headLength = this.#bodyLength = 0
    const kind = KINDS[this.#head.readUInt8(4)]
    if (kind === undefined) throw new Error('The frame is of an unknown kind')
    this.#listener.receive(kind, this.#head.readUInt32BE(5), JSON.parse(body.toString()))
  }
}
