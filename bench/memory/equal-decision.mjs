/**
 * A copy of a Decision, of the same shape and size, made of nothing but itself: its statuses and their list. A number that has
 * had a fraction is kept in a box of its own, in the copy as in what is copied.
 */
export function equalDecision(decision) {
  const { allowed, delay, retryAfter, remaining, resetAfter, degraded } = decision
  const limits = new Array(decision.limits.length)
  for (let i = 0; i < limits.length; i++) limits[i] = equalStatus(decision.limits[i])
  return { allowed, delay, retryAfter, remaining, resetAfter, limits, binding: limits[0], degraded }
}

/** What a status shows, and the receipt by which it can be given back: whose, when, how much. */
function equalStatus(status) {
  const { limit, key, cost, allowed, remaining, retryAfter, resetAfter, delay, policy, at, charged } = status
  return { limit, key, cost, allowed, remaining, retryAfter, resetAfter, delay, policy, at, charged }
}
