import type { ServerResponse } from 'node:http'

/** Milliseconds between two messages. */
const EVERY = 100
/** The most visitors at a time. */
export const MOST_VISITORS = 20
/** A visitor that reads nothing for so many milliseconds is disconnected. */
const LONGEST_STALL = 10_000
/** A stream ends after so many milliseconds. The page connects again, and the visitor is authorized again. */
const LONGEST_STREAM = 600_000

/** What the messages say. */
export interface Source {
  /** Returns everything, for a visitor that has nothing. */
  whole(): string
  /** Returns what has changed since the last call, or `undefined` if there is nothing to send yet. */
  changes(): string | undefined
}

/** Calls a function every 100 ms, without keeping the process alive. Returns a function that stops it. */
type Ticker = (tick: () => void) => () => void

function everyTick(tick: () => void): () => void {
  const timer = setInterval(tick, EVERY).unref()
  return () => clearInterval(timer)
}

interface Visitor {
  readonly response: ServerResponse
  readonly until: number
  /** When its connection last took a message whole. */
  readyAt: number
  /** True while the last message is still in the buffer of the connection. */
  isFull: boolean
  /** True if it was not sent a message, so that it needs everything again. */
  hasMissed: boolean
}

/**
 * Sends messages to all visitors as server-sent events, at most ten a second, each made once for all. What waits for a visitor is
 * bounded: while its connection is full it is sent nothing, and after that everything. No timer runs without a visitor.
 */
export class Feed {
  readonly #source: Source
  readonly #visitors = new Set<Visitor>()
  readonly #ticker: Ticker
  #stop: (() => void) | undefined

  constructor(source: Source, ticker: Ticker = everyTick) {
    this.#source = source
    this.#ticker = ticker
  }

  get visitors(): number {
    return this.#visitors.size
  }

  /** Sends events over a response until one side ends it. Returns false, and does nothing, if there are too many visitors. */
  open(response: ServerResponse, headers: Readonly<Record<string, string>>): boolean {
    if (this.#visitors.size >= MOST_VISITORS) return false
    if (this.#visitors.size === 0) this.#source.changes()
    const now = performance.now()
    const visitor: Visitor = {
      response,
      until: now + LONGEST_STREAM,
      readyAt: now,
      isFull: false,
      hasMissed: false,
    }
    this.#visitors.add(visitor)
    response.on('drain', () => {
      visitor.isFull = false
    })
    response.on('close', () => this.#remove(visitor))
    response.writeHead(200, { ...headers, 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' })
    this.#write(visitor, eventOf(this.#source.whole()))
    this.#stop ??= this.#ticker(() => this.#send())
    return true
  }

  /** Ends all streams. */
  close(): void {
    for (const visitor of this.#visitors) {
      visitor.response.end()
      this.#remove(visitor)
    }
  }

  #remove(visitor: Visitor): void {
    this.#visitors.delete(visitor)
    if (this.#visitors.size > 0) return
    this.#stop?.()
    this.#stop = undefined
  }

  #send(): void {
    const changes = this.#source.changes()
    if (changes === undefined) return
    const message = eventOf(changes)
    let everything: string | undefined
    const now = performance.now()
    for (const visitor of this.#visitors) {
      if (visitor.isFull) this.#skip(visitor, now)
      else if (now > visitor.until) visitor.response.end()
      else if (visitor.hasMissed) this.#write(visitor, (everything ??= eventOf(this.#source.whole())))
      else this.#write(visitor, message)
    }
  }

  #skip(visitor: Visitor, now: number): void {
    visitor.hasMissed = true
    if (now - visitor.readyAt > LONGEST_STALL) visitor.response.destroy()
  }

  #write(visitor: Visitor, event: string): void {
    visitor.hasMissed = false
    visitor.isFull = !visitor.response.write(event)
    visitor.readyAt = performance.now()
  }
}

/** JSON has no line breaks, so it is one line of data. */
function eventOf(data: string): string {
  return `data: ${data}\n\n`
}
