import { shared } from '../util/copies.ts'
import { isPromise } from '../util/maybe-promise.ts'

// The work for a request is over when its response has closed and its handler has ended.

/** How often slots are renewed after the response has closed, while the promise of the handler is pending. */
const MOST_RENEWALS = 10

/** A request that holds slots. */
export class Work {
  /** The number of promises of the handler that have not settled. */
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

  /** Tracks the promise of a handler, which settles when the handler has ended. */
  track(promise: PromiseLike<unknown>): void {
    this.#isTracked = true
    this.#pending++
    const settled = (): void => {
      this.#pending--
      this.#releaseIfOver()
    }
    promise.then(settled, settled)
  }

  /** Notes that a handler has ended its response. */
  answered(): void {
    this.#isAnswered = true
    this.#releaseIfOver()
  }

  /** Notes that the response has closed. Returns true if the handler has ended, too. `isAnswered`: counts as a call of `answered`. */
  closed(isAnswered: boolean): boolean {
    this.#isClosed = true
    this.#isAnswered ||= isAnswered
    return this.isOver
  }

  /** True if the response has closed and the handler has ended. */
  get isOver(): boolean {
    return this.#isClosed && (this.#isTracked ? this.#pending === 0 : this.#isAnswered)
  }

  /** True while a promise of the handler has not settled. */
  get isPending(): boolean {
    return this.#pending > 0
  }

  /** Must be called before each renewal. Returns false if the slots are not renewed any more. */
  mayRenew(): boolean {
    return !this.#isClosed || (this.isPending && this.#renewals++ < MOST_RENEWALS)
  }

  #releaseIfOver(): void {
    if (this.isOver) this.#release()
  }
}

/** The requests that hold slots, and the number of all such requests so far. It is 0 in most apps. */
const works = shared('work of requests', () => ({ byRequest: new WeakMap<object, Work[]>(), count: 0 }))

/**
 * Holds the slots of an admitted request until the promise of its handler has settled. Returns `work`, which may also be another value.
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

/** Releases the slots that request limiters hold for a request whose client has disconnected before a handler was called. */
export function endWork(request: object): void {
  if (works.count > 0) for (const each of works.byRequest.get(request) ?? []) each.answered()
}
