/**
 * A Decision of `count` limits, of the same shape and size as ours, made of nothing but itself: its statuses and their list.
 */
export function equalDecision(limit, allowed, count, i) {
  // Never whole: a number that may be whole or not is kept in two ways, and takes more.
  const time = i + 0.5
  const retryAfter = allowed ? 0 : time
  const limits = new Array(count)
  for (let j = 0; j < count; j++) limits[j] = equalStatus(limit, allowed, retryAfter, time, i)
  return {
    allowed,
    delay: 0,
    retryAfter,
    remaining: i,
    resetAfter: time,
    limits,
    binding: limits[0],
    degraded: undefined,
  }
}

/** What a status shows, and the receipt by which it can be given back: whose, when, how much. */
function equalStatus(limit, allowed, retryAfter, resetAfter, remaining) {
  const at = allowed ? 1.7e15 + remaining : 0
  return {
    limit,
    key: 'hot',
    cost: 1,
    allowed,
    remaining,
    retryAfter,
    resetAfter,
    delay: 0,
    policy: limit,
    at,
    charged: 1,
  }
}
