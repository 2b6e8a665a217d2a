import { inFile } from './mutation.mjs'

/** Tests of one algorithm, without those that compare it with Lua. */
function algorithm(name) {
  return { files: ['test/algorithms'], name, exclude: 'test/algorithms/{lua,prelude}.test.ts' }
}

const linear = inFile('src/algorithms/gcra.ts', algorithm('gcra|tokenBucket|leaky'))
const interval = inFile('src/algorithms/token-bucket-interval.ts', algorithm('tokenBucket|token bucket'))
const partFullBucket = inFile('src/algorithms/token-bucket-initial.ts', algorithm('tokenBucket|start full'))
const fixed = inFile('src/algorithms/fixed-window.ts', algorithm('fixedWindow|fixed window|offset'))
const log = inFile('src/algorithms/sliding-window-log.ts', algorithm('slidingWindowLog|the log|a log'))
const buckets = inFile('src/algorithms/sliding-window-buckets.ts', algorithm('slidingWindowBuckets|buckets'))
const counter = inFile('src/algorithms/sliding-window-counter.ts', algorithm('slidingWindowCounter|counter'))
const hybrid = inFile('src/algorithms/quota-linear.ts', algorithm('quotaLinear|hybrid'))
const measured = inFile('src/algorithms/exponential.ts', algorithm('exponential'))

const limiter = inFile('src/limiter/limiter.ts', {
  files: ['test/limiter/limiter.test.ts', 'test/stores/redis/identity.test.ts'],
})
const waiter = inFile('src/limiter/waiter.ts', { files: ['test/limiter/wait.test.ts'] })
const decision = inFile('src/limiter/decision.ts', {
  files: ['test/limiter/decision.test.ts', 'test/limiter/limiter.test.ts'],
})
const charges = inFile('src/limiter/charges.ts', {
  files: ['test/limiter/charges.test.ts', 'test/limiter/limiter.test.ts'],
})
const memory = (file) =>
  inFile(`src/stores/memory/${file}.ts`, {
    files: ['test/stores/memory/decide.test.ts', 'test/limiter/limiter.test.ts', 'test/limiter/wait.test.ts'],
  })
const adjusting = memory('adjust')
const deciding = memory('decide')
const locking = memory('locks')
const state = memory('state')
const slab = memory('slab')
const verdict = memory('verdict')

/** Slips of the hand in TypeScript: one character or one token each. */
export const typescript = [
  linear(
    '`<` for `≤` where a request just fits',
    'const allowed = n === 0 || d1 <= params.full',
    'const allowed = n === 0 || d1 < params.full',
  ),
  linear('a wait rounded down', 'const retry = allowed ? 0 : Math.ceil(', 'const retry = allowed ? 0 : Math.floor('),
  linear('a delay rounded down', '1 ? Math.ceil(d0 / params.drain) : 0', '1 ? Math.floor(d0 / params.drain) : 0'),
  linear(
    'what remains rounded up',
    'Math.floor((params.full - kept) / params.unit)',
    'Math.ceil((params.full - kept) / params.unit)',
  ),
  linear('`−` for `+` in a refund', 'Math.max(0, d0 + change)', 'Math.max(0, d0 - change)'),
  linear('what has drained given back in a cluster', 'Math.max(0, now - then) * params.drain : 0', '0 : 0'),
  linear(
    'a change rounded for the client',
    'Math.min(Math.ceil(d0 / from.unit)',
    'Math.min(Math.floor(d0 / from.unit)',
  ),
  linear(
    'a clock that steps back drains again',
    'd - elapsed * params.drain\n\n  const d1',
    'd - (now - last) * params.drain\n\n  const d1',
  ),

  interval(
    '`<` for `≤` where a request just fits',
    'n === 0 || n <= params.capacity - u0',
    'n === 0 || n < params.capacity - u0',
  ),
  interval('a wait one refill too short', 'start + Math.ceil((kept + n', 'start + Math.floor((kept + n'),
  interval('remaining tokens below none', 'Math.max(0, params.capacity - kept)', 'params.capacity - kept'),

  partFullBucket(
    '`>` for `≥` where a key is new',
    'const isNew = now >= renewal\n    bucket.step',
    'const isNew = now > renewal\n    bucket.step',
  ),
  partFullBucket(
    'a window never waited out before a key is new',
    'Math.max(renewal, now + out.reset + params.idle)',
    'Math.max(renewal, now + out.reset)',
  ),
  partFullBucket(
    'a key that is never born while it is denied',
    '&& isNew && params.taken > 0',
    '&& isNew && params.taken < 0',
  ),
  partFullBucket(
    'a key new sooner for what is given back',
    'units > 0 ? Math.max(renewal',
    'units !== 0 ? Math.min(renewal',
  ),
  partFullBucket(
    'a full key that waits anew when its limit changes',
    'Math.min(now, -rescale',
    'Math.max(now, -rescale',
  ),

  fixed(
    '`≤` for `<` at the end of a window',
    'now < cells[offset]! + params.window\n  const t =',
    'now <= cells[offset]! + params.window\n  const t =',
  ),
  fixed(
    '`−` for `+` in what is left of a window',
    'const left = start + params.window - t',
    'const left = start - params.window - t',
  ),
  fixed('a charge of the first tick not given back', 'used > 0 && then >= start', 'used > 0 && then > start'),
  fixed('an offset of a whole window', 'if (offset >= input.window)', 'if (offset > input.window)'),

  log(
    '`<` for `≤` where a request just fits',
    'n === 0 || n <= params.quota - sum',
    'n === 0 || n < params.quota - sum',
  ),
  log(
    '`−` for `+` in when an entry ends',
    'Infinity : (last + params.life) * params.grain',
    'Infinity : (last - params.life) * params.grain',
  ),
  log('a strict charge not held to the quota', 'persist ? Math.min(n, params.quota) : 0', 'persist ? n : 0'),
  log('more given back than an entry holds', 'units < 0 ? -Math.min(-units, cost)', 'units < 0 ? units'),

  buckets('one bucket forgotten', 'life: buckets + 1', 'life: buckets'),

  counter('the older window rounded up', 'const weighted = Math.floor(', 'const weighted = Math.ceil('),
  counter(
    'the older window weighted by its other part',
    'const weighted = Math.floor((prev * (params.window - e))',
    'const weighted = Math.floor((prev * e)',
  ),
  counter('`+` for `−` in a wait', '/ prev) - e\n  const retry', '/ prev) + e\n  const retry'),
  counter('an estimate rounded down when it moves', 'cur + Math.ceil((prev * left)', 'cur + Math.floor((prev * left)'),

  hybrid(
    '`+` for `−` in the penalty',
    'const kept = last ? params.unit - left',
    'const kept = last ? params.unit + left',
  ),
  hybrid(
    'the last token not noticed',
    'const last = bursty && b1 <= 0\n  const kept',
    'const last = bursty && b1 < 0\n  const kept',
  ),
  hybrid(
    'remaining tokens below none',
    'Math.max(0, Math.floor(kept / params.unit))',
    'Math.floor(kept / params.unit)',
  ),
  hybrid('a wait rounded down', 'const wait = smooth ? Math.ceil(', 'const wait = smooth ? Math.floor('),

  measured('`<` for `≤` at the quota', 'n === 0 || rate <= params.quota', 'n === 0 || rate < params.quota'),
  measured(
    'a life one tick too short',
    'Math.floor(params.window * ln(2 * r)) + 1\n}',
    'Math.floor(params.window * ln(2 * r))\n}',
  ),
  measured(
    'a rate below the request itself',
    'fresh ? n : Math.max(n, n * share(x, a) + a * r)',
    'fresh ? n : n * share(x, a) + a * r',
  ),
  measured(
    'what remains rounded up',
    'Math.max(0, Math.floor(params.quota - kept))',
    'Math.max(0, Math.ceil(params.quota - kept))',
  ),

  limiter('stores of one client apart', 'const { identity = store } = store', 'const identity = store'),
  limiter(
    'wrong options taken for none',
    "  knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS)\n",
    '',
  ),
  limiter('what is no decision given back', 'limits.every((each) => each instanceof Charge)', 'limits.length > 0'),
  waiter('a wait counted from now on', 'performance.now() - this.#since + ms', 'ms'),
  decision(
    'a shadow limit taken for the only kind',
    'if (!isEnforced(status)) continue',
    'if (isEnforced(status)) continue',
  ),
  decision('the largest remainder told', 'remaining = Math.min(', 'remaining = Math.max('),
  decision('further requests rounded up', 'Math.floor(remaining / cost)', 'Math.ceil(remaining / cost)'),
  decision('the shortest wait binds', 'status.retryAfter > before.retryAfter', 'status.retryAfter < before.retryAfter'),
  decision('the last of equals binds', 'further(status) < further(before)', 'further(status) <= further(before)'),
  decision('a limit that is free told as one that is not', 'if (status.cost > 0)', 'if (status.cost >= 0)'),
  decision('the shortest delay', 'status.delay > delay', 'status.delay < delay'),

  charges('the smaller of two costs', 'charges[i]!.cost > charges[j]!.cost', 'charges[i]!.cost < charges[j]!.cost'),
  charges('a cost of 0 refused', 'Number.isSafeInteger(cost) && cost >= 0', 'Number.isSafeInteger(cost) && cost > 0'),
  charges('one skipped after one is merged', 'charges.splice(i--, 1)', 'charges.splice(i, 1)'),
  charges('another key taken for the same', 'a.key !== b.key || a.limit.name', 'a.key !== b.key && a.limit.name'),
  charges(
    'limits of two limiters taken for one',
    'a.policy.limiter !== b.policy.limiter ||',
    'a.policy.limiter !== b.policy.limiter &&',
  ),

  deciding(
    '`&&` for `||` in what strict charges',
    'admitted || policy.compiled.strict',
    'admitted && policy.compiled.strict',
  ),
  deciding('the denied charged instead of the allowed', '(allowed ? admitted', '(!allowed ? admitted'),
  deciding(
    'what a key holds without a charge that was made',
    'if (charge.allowed && !admitted && charge.cost > 0)',
    'if (charge.allowed && admitted && charge.cost > 0)',
  ),
  deciding('a peek that charges', 'else if (write) this.#keep', 'else if (!write) this.#keep'),
  deciding('a shadow limit that denies', ' && compiled.enforced', ''),
  deciding('a limit that locks taken for one that does not', ' && compiled.block === 0', ''),
  slab('another limit taken for the same', 'this.writtenBy(slot) === compiled', 'this.writtenBy(slot) !== compiled'),
  slab('a lock not looked for', 'this.locks === undefined && this.writtenBy', 'this.writtenBy'),
  locking('`≥` for `>` where a lock opens', 'if (attempt.lockedUntil > now)', 'if (attempt.lockedUntil >= now)'),
  locking('a lock in the past', 'now + compiled.block', 'now - compiled.block'),
  locking(
    'a lock reported shorter than a wait',
    'charge.retryAfter = Math.max(charge.retryAfter, ms)',
    'charge.retryAfter = Math.min(charge.retryAfter, ms)',
  ),
  locking('a cost of 0 locked out', 'charge.allowed = charge.cost === 0', 'charge.allowed = charge.cost < 0'),
  verdict('a wait in ticks', 'outcome.retry / charge.policy', 'outcome.retry * charge.policy'),
  state('milliseconds rounded up', 'Math.floor(now / 1000)', 'Math.ceil(now / 1000)'),
  adjusting(
    'a refund under another algorithm',
    '!isCompatible(algorithm, writer.algorithm)',
    'isCompatible(algorithm, writer.algorithm)',
  ),
]
