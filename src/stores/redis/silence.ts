import { background } from '../../util/clock.ts'
import { madeOnce } from '../../util/copies.ts'

/** Milliseconds between two checks. */
const EVERY = 1000
/** Checks in a row without an answer after which a server is silent. They take two to three seconds. */
const LOOKS = 3
/** The most searches for servers that may be under way: one can wait for a server that is frozen. */
const SEARCHES = 10

/** A server to which calls were sent. */
interface Server {
  /** The key of the latest call. */
  key: string
  /** Calls under way. */
  calls: number
  /** True if a call was sent since the last check. */
  isAsked: boolean
  /** Checks since the last answer. */
  looks: number
}

/**
 * Makes the client search for its servers while one of them does not answer: after two to three seconds, and then each second. A client keeps the
 * connection to a frozen server, even if another server has replaced it.
 *
 * It counts checks instead of time, because a process that was busy reads the waiting answers before its next check.
 */
export class Silence {
  readonly #serverOf: (key: string) => string
  readonly #search: (key: string) => Promise<unknown>
  readonly #servers = new Map<string, Server>()
  #searches = 0
  #cancel: (() => void) | undefined

  /**
   * @param serverOf returns the name of the server that has a key now
   * @param search makes the client search, by a key of a silent server
   */
  constructor(serverOf: (key: string) => string, search: (key: string) => Promise<unknown>) {
    this.#serverOf = serverOf
    this.#search = search
  }

  /** Notes that a call is sent to the server of a key. Returns a function to call at its end, with true if the server has answered. */
  sent(key: string): (isAnswered: boolean) => void {
    const server = madeOnce(this.#servers, this.#serverOf(key), () => ({ key, calls: 0, isAsked: true, looks: 0 }))
    server.key = key
    server.calls++
    server.isAsked = true
    this.#cancel ??= background(EVERY, this.#look)
    return (isAnswered) => {
      server.calls--
      if (isAnswered) server.looks = 0
    }
  }

  close(): void {
    this.#cancel?.()
    this.#servers.clear()
  }

  readonly #look = (): void => {
    const silent: string[] = []
    for (const [name, server] of this.#servers) {
      const isUsed = (server.calls > 0 || server.isAsked) && this.#serverOf(server.key) === name
      if (!isUsed) this.#servers.delete(name)
      else if (++server.looks >= LOOKS) silent.push(server.key)
      server.isAsked = false
    }
    this.#cancel = this.#servers.size === 0 ? undefined : background(EVERY, this.#look)
    // A search finds all servers. The client may need a key of the server that was replaced, so the key is chosen at random.
    if (silent.length > 0) this.#searchBy(silent[Math.floor(Math.random() * silent.length)]!)
  }

  #searchBy(key: string): void {
    if (this.#searches === SEARCHES) return
    this.#searches++
    const ended = (): void => void this.#searches--
    this.#search(key).then(ended, ended)
  }
}
