import type { Decision } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { chain, type MaybePromise } from '../util/maybe-promise.ts'
import { Charge, type LimitStatus, type Policy } from '../stores/store.ts'
import { warn } from '../util/warn.ts'

/** Sees to it that a request which passes one limiter twice is counted once. */
export interface Passage<Request> {
  /**
   * The decision that has counted already all that this limiter would count for the request now, if there is one. Warns,
   * once, where there is; and where it would count a part of it again.
   * @param latest the decision that was made for the request before, by whichever limiter
   */
  before(request: Request, latest: Decision): MaybePromise<Decision | undefined>
  /** Takes note of a decision of this limiter, and of the one that was made for the same request before. */
  note(decision: Decision, latest: Decision | undefined): void
}

/** What is known of a limiter, whichever gates it has: where its limits are at home, and whether somebody was told. */
interface Known {
  /** One policy for each limiter of a stack. */
  readonly homes: Policy[]
  warned: boolean
}

const COUNTED_ONCE = 'It is counted once. Mount the middleware in one place on the way of a request.'
const COUNTED_IN_PART =
  'The second time asks for other limits as well, so that what both have in common is counted twice. Give all limits to one ' +
  'middleware, or those of the app and those of the route to different limiters.'

const knowledge = new WeakMap<object, Known>()
/** The decision before a decision, where a request passes several gates. */
const previous = new WeakMap<Decision, Decision>()

/** Makes the passage of a gate. A request that passes no other gate costs it next to nothing. */
export function passage<Request>(limiter: Limiter<Request>): Passage<Request> {
  const known = knownOf(limiter)
  const { homes } = known

  function covering(again: Decision, latest: Decision): Decision | undefined {
    let inPart = false
    for (let each: Decision | undefined = latest; each !== undefined; each = previous.get(each)) {
      const { limits } = each
      const twice = again.limits.filter((status) => limits.some((other) => sameBucket(status, other)))
      if (twice.length > 0 && twice.length === again.limits.length) {
        warnOnce(known, COUNTED_ONCE)
        return each
      }
      inPart ||= twice.length > 0
    }
    if (inPart) warnOnce(known, COUNTED_IN_PART)
    return undefined
  }

  return {
    before(request, latest) {
      if (!isSuspect(homes, latest)) return undefined
      return chain(limiter.peek(request), (again) => covering(again, latest))
    },
    note(decision, latest) {
      if (latest !== undefined) previous.set(decision, latest)
      const { limits } = decision
      for (let i = 0; i < limits.length; i++) learn(homes, policyOf(limits[i]!))
    },
  }
}

function knownOf(limiter: object): Known {
  const made = knowledge.get(limiter) ?? { homes: [], warned: false }
  knowledge.set(limiter, made)
  return made
}

function learn(homes: Policy[], policy: Policy | undefined): void {
  if (policy !== undefined && !includes(homes, policy)) homes.push(policy)
}

/** True when a request has been counted in one of these places. */
function isSuspect(homes: readonly Policy[], latest: Decision): boolean {
  for (let each: Decision | undefined = latest; each !== undefined; each = previous.get(each)) {
    for (const status of each.limits) {
      const policy = policyOf(status)
      if (policy !== undefined && includes(homes, policy)) return true
    }
  }
  return false
}

function includes(homes: readonly Policy[], policy: Policy): boolean {
  for (let i = 0; i < homes.length; i++) if (homes[i]!.home === policy.home) return true
  return false
}

function policyOf(status: LimitStatus): Policy | undefined {
  return status instanceof Charge ? status.policy : undefined
}

function sameBucket(a: LimitStatus, b: LimitStatus): boolean {
  const [policy, other] = [policyOf(a), policyOf(b)]
  if (policy === undefined || other === undefined || a.key !== b.key) return false
  return a.limit.name === b.limit.name && policy.home === other.home
}

function warnOnce(known: Known, message: string): void {
  if (known.warned) return
  known.warned = true
  const names = new Set(known.homes.map((home) => `"${home.limiter}"`))
  warn(
    'SLUICE_MOUNTED_TWICE',
    `A request has passed the limiter ${[...names].join(', ')} twice, such as on the app and on a router or route of it. ${message}`,
  )
}
