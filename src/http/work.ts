import { shared } from '../util/copies.ts'
import { isPromise } from '../util/maybe-promise.ts'

// When the work for a request is over: its response has closed, and its handler has ended.

/** How often slots are renewed after the response has closed, while the promise of the handler is pending. */
const MOST_RENEWALS = 10

/** A request that holds slots. */
export class Work {
  /** Promises of the handler that have not settled. */
  #pending = 0
  #isTracked = false
  #isAnswered = false
  #isClosed = false
  #renewals = 0
  /** Gives the slots back. */
  readonly #release: () => void

  constructor(release: () => void) {
    this.#release = release
  }

  /** The promise of a handler says when the handler has ended. */
  track(promise: PromiseLike<unknown>): void {
    this.#isTracked = true
    this.#pending++
    const settled = (): void => {
      this.#pending--
      this.#releaseIfOver()
    }
    promise.then(settled, settled)
  }

  /** A handler has ended its response. */
  answered(): void {
    this.#isAnswered = true
    this.#releaseIfOver()
  }

  /** The response has closed. Returns true if the handler has ended, too. `isAnswered`: nothing more will say so. */
  closed(isAnswered: boolean): boolean {
    this.#isClosed = true
    this.#isAnswered ||= isAnswered
    return this.isOver
  }

  /** True when the response has closed and the handler has ended. */
  get isOver(): boolean {
    return this.#isClosed && (this.#isTracked ? this.#pending === 0 : this.#isAnswered)
  }

  /** Called before each renewal. Returns false when the slots are not renewed any more. */
  mayRenew(): boolean {
    return !this.#isClosed || (this.#pending > 0 && this.#renewals++ < MOST_RENEWALS)
  }

  #releaseIfOver(): void {
    if (this.isOver) this.#release()
  }
}

/** The requests that hold slots, and how many have been seen: most apps have none. */
const works = shared('work of requests', () => ({ byRequest: new WeakMap<object, Work[]>(), count: 0 }))

/**
 * Holds the slots of an admitted request until the promise of its handler has settled. Returns what the handler has returned, also if that is no
 * promise.
 * @example return trackWork(context, next())
 */
export function trackWork<Result>(request: object, work: Result): Result {
  if (works.count > 0 && isPromise(work)) for (const each of works.byRequest.get(request) ?? []) each.track(work)
  return work
}

/** Notes that a request holds slots until its work is over. The object may be that of many requests, such as a user. */
export function noteWork(request: object, work: Work): void {
  works.count++
  const known = works.byRequest.get(request) ?? []
  works.byRequest.set(request, [...known.filter(({ isOver }) => !isOver), work])
}

/** No handler is called for a request whose client has gone. What other request limiters hold for it is given back. */
export function endWork(request: object): void {
  if (works.count > 0) for (const each of works.byRequest.get(request) ?? []) each.answered()
}
