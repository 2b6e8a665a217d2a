import { isPromise, type MaybePromise } from '../../src/util/maybe-promise.ts'

/** A process whose timers wait while it is frozen. */
export interface Owner {
  readonly frozenUntil: number
}

/** True time, in microseconds. Messages, and timers of processes, wait for it. */
export class Timeline {
  now = 1_704_067_200_000_000
  readonly #events: { at: number; readonly owner: Owner | undefined; readonly run: () => MaybePromise<unknown> }[] = []

  at(at: number, owner: Owner | undefined, run: () => MaybePromise<unknown>): () => void {
    const event = { at, owner, run }
    this.#events.push(event)
    return () => {
      const i = this.#events.indexOf(event)
      if (i >= 0) this.#events.splice(i, 1)
    }
  }

  async pass(micros: number): Promise<void> {
    const until = this.now + micros
    for (;;) {
      let next = -1
      for (const [i, { at }] of this.#events.entries())
        if (at <= until && (next < 0 || at < this.#events[next]!.at)) next = i
      if (next < 0) break
      const [event] = this.#events.splice(next, 1)
      const frozen = event!.owner?.frozenUntil ?? 0
      this.now = Math.max(this.now, event!.at)
      if (frozen > this.now) {
        event!.at = frozen
        this.#events.push(event!)
        continue
      }
      const done = event!.run()
      if (isPromise(done)) await done
    }
    this.now = Math.max(this.now, until)
  }
}
