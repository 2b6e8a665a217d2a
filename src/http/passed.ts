import type { Decision } from '../decision.ts'
import type { Limiter } from '../limiter.ts'
import { Charge, type LimitStatus, type Store } from '../store.ts'
import { warn } from '../warn.ts'

/** Where a limiter counts: limiters of one name on one store count together. */
interface Home {
  readonly limiter: string
  readonly store: Store
}

/** Finds out whether a request has been counted already where it is about to be counted. */
export interface Passage<Request> {
  /** True when a decision made for this request before is of this limiter, or of one that it has in common with a stack. */
  suspects(earlier: Decision | undefined): earlier is Decision
  /** The decision that has counted everything that `again` would count; warns when there is any of that. */
  repeated(again: Decision, earlier: Decision): Decision | undefined
  /** Takes note of a decision, and of the one that was made for the same request before it. */
  note(decision: Decision, earlier: Decision | undefined): void
  /** What the limiter would count for this request. */
  peek: Limiter<Request>['peek']
}

/** What was decided for the same request before, where it has passed several gates. */
const decidedBefore = new WeakMap<Decision, Decision>()
const homesOf = new WeakMap<Limiter<never>, Home[]>()
