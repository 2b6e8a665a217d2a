/** Milliseconds between two looks at the clock. */
const EVERY = 2
/** Milliseconds for which delays are kept. */
const KEPT = 5000

/** Records when the event loop of this process was late, because it was busy or waited for a processor. */
export class Lag {
  longest = 0
  /** When it looked last. Delays after that are not known yet. */
  lookedAt = performance.now()
  #delays = []
  #timer
  #due = performance.now() + EVERY

  constructor() {
    this.#timer = setInterval(() => this.#look(), EVERY).unref()
  }

  /** Milliseconds of a time in which the event loop was late. */
  during(from, until) {
    let sum = 0
    for (const delay of this.#delays) sum += Math.max(0, Math.min(until, delay.until) - Math.max(from, delay.from))
    return sum
  }

  stop() {
    clearInterval(this.#timer)
  }

  #look() {
    const now = performance.now()
    if (now - this.#due > 1) this.#note({ from: this.#due, until: now })
    this.lookedAt = now
    this.#due = now + EVERY
  }

  #note(delay) {
    this.longest = Math.max(this.longest, delay.until - delay.from)
    this.#delays.push(delay)
    while (this.#delays[0].until < delay.until - KEPT) this.#delays.shift()
  }
}
