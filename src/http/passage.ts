import type { Decision } from '../decision.ts'
import type { Limiter } from '../limiter.ts'
import { chain, type MaybePromise } from '../maybe-promise.ts'
import { Charge, type LimitStatus, type Policy } from '../store.ts'
import { warn } from '../warn.ts'

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

/** What is known of a limiter, whichever gates it has: where it counts, and whether somebody was told. */
interface Known {
  /** One policy for each limiter of a stack: together with its store, the name of a limiter says where it counts. */
  readonly homes: Policy[]
  warned: boolean
}

const known = new WeakMap<object, Known>()
/** The decision before a decision, where a request passes several gates. */
const previous = new WeakMap<Decision, Decision>()

/** Makes the passage of a gate. A request that passes no other gate costs it next to nothing. */
export function passage<Request>(limiter: Limiter<Request>): Passage<Request> {
  const { homes } = knownOf(limiter)

  function covering(again: Decision, latest: Decision): Decision | undefined {
    let part = false
    for (let each: Decision | undefined = latest; each !== undefined; each = previous.get(each)) {
      const { limits } = each
      const twice = again.limits.filter((status) => limits.some((other) => sameBucket(status, other)))
      part ||= twice.length > 0
      if (part && twice.length === again.limits.length) return told(limiter, homes, true) ?? each
    }
    if (part) told(limiter, homes, false)
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
  const made = known.get(limiter) ?? { homes: [], warned: false }
  known.set(limiter, made)
  return made
}

function learn(homes: Policy[], policy: Policy | undefined): void {
  if (policy !== undefined && !homes.some((home) => sameHome(home, policy))) homes.push(policy)
}

/** True when a request has been counted in one of these places. */
function isSuspect(homes: readonly Policy[], latest: Decision): boolean {
  for (let each: Decision | undefined = latest; each !== undefined; each = previous.get(each)) {
    for (const status of each.limits) {
      const policy = policyOf(status)
      if (policy !== undefined && homes.some((home) => sameHome(home, policy))) return true
    }
  }
  return false
}

function policyOf(status: LimitStatus): Policy | undefined {
  return status instanceof Charge ? status.policy : undefined
}

function sameHome(a: Policy, b: Policy): boolean {
  return a === b || (a.limiter === b.limiter && a.store === b.store)
}

function sameBucket(a: LimitStatus, b: LimitStatus): boolean {
  const [policy, other] = [policyOf(a), policyOf(b)]
  if (policy === undefined || other === undefined || a.key !== b.key) return false
  return a.limit.name === b.limit.name && sameHome(policy, other)
}

function told(limiter: object, homes: readonly Policy[], whole: boolean): undefined {
  const state = knownOf(limiter)
  if (state.warned) return
  state.warned = true
  const names = [...new Set(homes.map((home) => `"${home.limiter}"`))].join(', ')
  warn(
    'SLUICE_MOUNTED_TWICE',
    `A request has passed the limiter ${names} twice, such as on the app and on a router or route of it. ` +
      (whole
        ? 'It is counted once. Mount the middleware in one place on the way of a request.'
        : 'The second time asks for other limits as well, so that what both have in common is counted twice. ' +
          'Give all limits to one middleware, or those for the app and those for the route to different limiters.'),
  )
}
