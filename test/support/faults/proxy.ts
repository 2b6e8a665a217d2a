import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

/**
 * What a proxy does with bytes:
 * - `'pass'`: forwards them, after `delay` milliseconds and a part of `jitter` if they come from the server.
 * - `'hold'`: forwards nothing until later, as a network that drops packets: TCP sends them again.
 * - `'lose'`: drops them for good and leaves the connections open, as a firewall that has forgotten them. They are reset
 *   when the mode changes.
 * - `'cut'`: forwards half of a reply, then closes the connection.
 * - `'reset'`: resets connections, also new ones.
 */
export type ProxyMode = 'pass' | 'hold' | 'lose' | 'cut' | 'reset'

interface Link {
  readonly near: Socket
  readonly far: Socket
  /** Its bytes are dropped for good. */
  isLost: boolean
  /** When the latest delayed bytes are forwarded. */
  due: number
  /** Delayed bytes in order. Each timer forwards the first, since timers of different durations can fire in another order. */
  readonly delayed: Buffer[]
}

/** A TCP proxy in front of a server on this machine. */
export class Proxy {
  readonly #server: Server
  readonly #links = new Set<Link>()
  /** Sees what clients send, before the server does. */
  onSend: ((bytes: Buffer) => void) | undefined
  #target = 0
  #mode: ProxyMode = 'pass'
  #delay = 0
  #jitter = 0

  private constructor(server: Server) {
    this.#server = server
    server.on('connection', (near) => this.#accept(near))
  }

  static async listen(): Promise<Proxy> {
    const server = createServer({ noDelay: true }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new Proxy(server)
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  to(port: number): this {
    this.#target = port
    return this
  }

  /** @param delay milliseconds that each reply waits, and at random up to `jitter` more */
  set(mode: ProxyMode, delay = 0, jitter = 0): void {
    this.#mode = mode
    this.#delay = delay
    this.#jitter = jitter
    for (const link of this.#links) this.#apply(link)
  }

  /** Loses what present connections send and receive, and keeps them open. New ones pass. */
  forget(): void {
    for (const link of this.#links) link.isLost = true
    this.#mode = 'pass'
  }

  async close(): Promise<void> {
    for (const { near, far } of this.#links) for (const each of [near, far]) each.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #accept(near: Socket): void {
    const link: Link = {
      near,
      far: connect({ port: this.#target, host: '127.0.0.1', noDelay: true }),
      isLost: false,
      due: 0,
      delayed: [],
    }
    this.#links.add(link)
    for (const each of [near, link.far]) {
      each.on('error', () => undefined)
      each.on('close', () => this.#end(link))
    }
    near.on('data', (bytes: Buffer) => {
      this.onSend?.(bytes)
      if (!link.isLost) link.far.write(bytes)
    })
    link.far.on('data', (bytes) => this.#reply(link, bytes))
    this.#apply(link)
  }

  #apply(link: Link): void {
    const { near, far } = link
    if (this.#mode === 'reset' || (link.isLost && this.#mode !== 'lose')) return void near.resetAndDestroy()
    if (this.#mode === 'lose') link.isLost = true
    for (const each of [near, far]) {
      if (this.#mode === 'hold') each.pause()
      else each.resume()
    }
  }

  #reply(link: Link, bytes: Buffer): void {
    if (link.isLost) return
    if (this.#mode === 'cut') return void link.near.end(bytes.subarray(0, bytes.length >> 1), () => link.near.destroy())
    const now = performance.now()
    link.due = Math.max(link.due, now + this.#delay + Math.random() * this.#jitter)
    link.delayed.push(bytes)
    const write = (): void => {
      const first = link.delayed.shift()!
      if (!link.near.destroyed) link.near.write(first)
    }
    if (link.delayed.length === 1 && link.due <= now + 1) write()
    else setTimeout(write, Math.max(1, Math.ceil(link.due - now)))
  }

  #end(link: Link): void {
    this.#links.delete(link)
    link.near.destroy()
    link.far.destroy()
  }
}
