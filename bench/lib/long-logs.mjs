import { entry, consumer } from './entry.mjs'
import { figure } from './experiment.mjs'
import { budget, oursIn, row } from './row.mjs'
import { median } from './statistics.mjs'

const HOUR = 3_600_000
const REPEATS = 3
const SIZES = [100, 1000, 10_000, 100_000]
/** The target for any one decision. */
const MOST_MICROSECONDS = 1000

/** What is decided on a full log. Each returns the actions that are timed, one by one; the slowest counts. */
const CASES = {
  // Half of them leave their chunk or block, one of them begins a new one.
  admitted: (log) => Array.from({ length: 16 }, (_, i) => () => log.consumeAt(HOUR + (i + 1) / 1000)),
  denied: (log) => [() => log.consumeAt(log.filled)],
  'denied, cost of the whole quota': (log) => [() => log.consumeAt(log.filled, log.size)],
  'the first one after the window': (log) => [() => log.consumeAt(3 * HOUR)],
  refund: (log) => [0, 0.5, 0.99].map((part) => () => log.refund(Math.floor(part * log.size))),
  'quota changed to half': (log) => [() => log.consumeAt(log.filled, 1, Math.ceil(log.size / 2))],
}

/**
 * Times single decisions on full logs, under limits of one build.
 * @param {{ root: string, makeStore: (clock: object) => object, time: (action: () => unknown) => Promise<number>,
 *   refill: (log: LongLog) => Promise<void> }} how `time` returns microseconds
 * @param {number[]} [sizes]
 * @returns {Promise<Record<string, number>>} by case and size
 */
export async function timeLongLogs(how, sizes = SIZES) {
  const figures = {}
  for (const size of sizes) {
    const log = new LongLog(await entry(how.root, 'sluice'), size, how.makeStore)
    for (const [name, actions] of Object.entries(CASES)) {
      const slowest = []
      for (let i = 0; i < REPEATS; i++) {
        await how.refill(log)
        const times = []
        for (const action of actions(log)) times.push(await how.time(action))
        slowest.push(Math.max(...times))
      }
      figures[nameOf(name, size)] = median(slowest)
    }
  }
  return figures
}

/** A key whose log is full: an entry for each microsecond. */
export class LongLog {
  size
  /** Milliseconds after the start when it is full. */
  filled
  #start = Date.now()
  #now = this.#start
  #makeLimit
  #limit
  #decisions = []
  #limiter
  #consume
  #refunds = 0

  constructor(sluice, size, makeStore) {
    this.size = size
    this.filled = size / 1000
    this.#makeLimit = (quota) => sluice.slidingWindowLog({ name: 'log', quota, window: HOUR })
    const store = makeStore({ now: () => this.#now })
    const limits = () => this.#limit
    this.#limiter = sluice.createLimiter({ name: `log-${size}`, keyer: (key) => key, limits, store })
    this.#consume = consumer(this.#limiter)
  }

  /** Admits one after another. */
  async fill() {
    this.restart()
    await this.#limiter.reset('key')
    this.#decisions = []
    for (let i = 0; i < this.size; i++) {
      const decision = this.consumeAt(i / 1000)
      this.#decisions.push(decision instanceof Promise ? await decision : decision)
    }
  }

  /** Goes back to the limit and the time of the start, for a log that is as it was filled. */
  restart() {
    this.#limit = this.#makeLimit(this.size)
    this.#now = this.#start + this.filled
  }

  consumeAt(ms, cost = 1, quota = this.#limit.quota) {
    if (quota !== this.#limit.quota) this.#limit = this.#makeLimit(quota)
    this.#now = this.#start + ms
    return this.#consume('key', { cost })
  }

  /** Refunds an entry that was not refunded before, next to the given one. */
  refund(i) {
    return this.#limiter.refund(this.#decisions[Math.max(20, i) - (this.#refunds++ % 20)])
  }
}

function nameOf(name, size) {
  return `${name}, ${size.toLocaleString('en')} entries`
}

/** A row for each case and size. */
export function longLogRows(samples, group) {
  const names = Object.keys(CASES).flatMap((name) => SIZES.map((size) => nameOf(name, size)))
  return names.map((title) => {
    const values = figure(samples, title)
    const atMost = budget('< 1 ms', values[oursIn(values)], { atMost: MOST_MICROSECONDS })
    // Single decisions vary too much to say which build is slower.
    return row({ group, title, unit: 'µs', values, budgets: [atMost], mayBeSlower: true })
  })
}
