import { isTestRun } from '../../util/warn.ts'
import { warnLater } from '../../util/warn-later.ts'
import type { ScriptClient } from './clients.ts'

/** Milliseconds between two checks. */
const EVERY = 60_000
/** The least and the most checks within the life of the key. States that end sooner are seldom removed before. */
const LEAST = 2
const MOST = 60
/** The part of the time between two checks by which the clocks of two servers may differ. */
const SLACK = 1 / 30

/**
 * Returns the milliseconds after which a key ends, and the time of the server in epoch milliseconds. If there is no key, the first number is negative, and the
 * script makes the key. It needs no right that the program does not need. For a server that removes the keys that were not used for longest, `PTTL` is no use.
 */
const SCRIPT = `local left, time = redis.call('PTTL', KEYS[1]), redis.call('TIME')
if left < 0 then
  redis.call('HSET', KEYS[1], 'names', '')
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return { left, time[1] * 1000 + math.floor(time[2] / 1000) }`

/**
 * Notices a server that loses keys before their end: it removes them to free memory, was restarted without its data, or was emptied. A lost key is like a new one,
 * so there is no error. Once a minute, this process checks a key of its own, which is kept for as long as the states of requests, and for at most an hour.
 */
export class KeptKey {
  /** The time of the next check, in milliseconds of `performance.now()`. */
  due: number
  readonly #server: { readonly name: string; readonly scripts: ScriptClient }
  readonly #every: number
  #key: string | undefined
  #ms = 0
  /** The epoch millisecond of the end of the key, by the clock of the server. */
  #until = 0

  /** @param every milliseconds between two checks, for tests */
  constructor(server: { readonly name: string; readonly scripts: ScriptClient }, every: number = EVERY) {
    this.#server = server
    this.#every = every
    this.due = isTestRun() ? Infinity : performance.now() + every
  }

  /**
   * Checks the key, and warns if it is lost: at most once in an hour. Does not reject.
   * @param ms milliseconds for which the state of a request is kept
   * @param nameOf returns a name for the key
   */
  async check(ms: number, nameOf: () => string): Promise<void> {
    this.due = performance.now() + this.#every
    this.#ms = Math.min(Math.max(this.#ms, ms), this.#every * MOST)
    if (this.#ms < this.#every * LEAST) return
    try {
      this.#key ??= nameOf()
      const reply = await this.#server.scripts.call('eval', SCRIPT, [this.#key], [String(Math.ceil(this.#ms))])
      const [left, now] = (reply as readonly unknown[]).map(Number) as [number, number]
      if (left >= 0) return
      if (now < this.#until - this.#every * SLACK) {
        this.due += this.#every * MOST
        warnLater('SLUICE_COUNTS_LOST', this.#server.name, Math.ceil((this.#until - now) / 60_000))
      }
      this.#until = now + this.#ms
    } catch {
      // The guard reports a server that does not answer.
    }
  }
}
