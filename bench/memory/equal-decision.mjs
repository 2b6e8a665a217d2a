/**
 * A Decision of the same shape and size as another, made of nothing but itself: its statuses, the list of them, and in each
 * status the receipt by which it can be given back. The times differ, so that no number is shared.
 */
export function equalDecision(decision, i) {
  const { limits } = decision
  const statuses = new Array(limits.length)
  for (let j = 0; j < limits.length; j++) statuses[j] = equalStatus(limits[j], i)
  const { allowed, delay, retryAfter, remaining, resetAfter, degraded } = decision
  return {
    allowed,
    delay,
    retryAfter: retryAfter === 0 ? 0 : retryAfter + i / 8,
    remaining,
    resetAfter: resetAfter + i / 8,
    limits: statuses,
    binding: statuses[0],
    degraded,
  }
}

function equalStatus({ limit, key, cost, allowed, remaining, retryAfter, resetAfter, delay, at, charged }, i) {
  return {
    limit,
    key,
    cost,
    allowed,
    remaining,
    retryAfter: retryAfter === 0 ? 0 : retryAfter + i / 8,
    resetAfter: resetAfter + i / 8,
    delay,
    receipt: limit,
    at: at === 0 ? 0 : at + i,
    charged,
  }
}
