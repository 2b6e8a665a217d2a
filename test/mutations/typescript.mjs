import { inFile } from './mutation.mjs'

/** Tests of one algorithm, without those that compare it with Lua. */
function algorithm(name) {
  return { files: ['test/algorithms'], name, exclude: 'test/algorithms/{extension,lua,prelude}.test.ts' }
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
const trial = inFile('src/stores/memory/attempt.ts', {
  files: ['test/stores/memory/attempt.test.ts', 'test/limiter/limiter.test.ts', 'test/limiter/wait.test.ts'],
})
const alone = inFile('src/stores/memory/fast-path.ts', {
  files: ['test/stores/memory/attempt.test.ts', 'test/limiter/limiter.test.ts'],
})

/** Small mistakes in TypeScript: one character or one token each. */
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
  linear('a refund in a cluster that ignores what has drained', 'Math.max(0, now - then) * params.drain : 0', '0 : 0'),
  linear(
    'a conversion rounded in favour of the client',
    'Math.min(Math.ceil(d0 / from.unit)',
    'Math.min(Math.floor(d0 / from.unit)',
  ),
  linear(
    'a clock that steps back and drains again',
    'd - elapsed * params.drain\n\n  const d1',
    'd - (now - last) * params.drain\n\n  const d1',
  ),

  interval(
    '`<` for `≤` where a request just fits',
    'n === 0 || n <= params.capacity - u0',
    'n === 0 || n < params.capacity - u0',
  ),
  interval('a wait one refill too short', 'start + Math.ceil((kept + n', 'start + Math.floor((kept + n'),
  interval('a negative number of remaining tokens', 'Math.max(0, params.capacity - kept)', 'params.capacity - kept'),

  partFullBucket(
    '`>` for `≥` where a key is new',
    'const isNew = now >= renewal\n    bucket.step',
    'const isNew = now > renewal\n    bucket.step',
  ),
  partFullBucket(
    'a key that is new without a window of waiting',
    'Math.max(renewal, now + out.reset + params.idle)',
    'Math.max(renewal, now + out.reset)',
  ),
  partFullBucket(
    'a new key that is not stored when it is denied',
    '&& isNew && params.taken > 0',
    '&& isNew && params.taken < 0',
  ),
  partFullBucket(
    'a key that is new sooner after a refund',
    'units > 0 ? Math.max(renewal',
    'units !== 0 ? Math.min(renewal',
  ),
  partFullBucket(
    'a full key that waits again when its limit changes',
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
  fixed('no refund of a charge in the first tick', 'used > 0 && then >= start', 'used > 0 && then > start'),
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
  log('a strict charge above the quota', 'persist ? Math.min(n, params.quota) : 0', 'persist ? n : 0'),
  log('a refund of more than an entry holds', 'units < 0 ? -Math.min(-units, cost)', 'units < 0 ? units'),

  buckets('one bucket forgotten', 'life: buckets + 1', 'life: buckets'),

  counter('the older window rounded up', 'const weighted = Math.floor(', 'const weighted = Math.ceil('),
  counter(
    'the older window weighted by its elapsed part',
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
    'the last token overlooked',
    'const last = bursty && b1 <= 0\n  const kept',
    'const last = bursty && b1 < 0\n  const kept',
  ),
  hybrid(
    'a negative number of remaining tokens',
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

  limiter('stores of one client counted separately', 'const { identity = store } = store', 'const identity = store'),
  limiter(
    'wrong options ignored',
    "  knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS)\n",
    '',
  ),
  limiter(
    'a refund of a value that is no decision',
    'limits.every((each) => each instanceof Charge)',
    'limits.length > 0',
  ),
  waiter('a wait measured from now on', 'performance.now() - this.#since + ms', 'ms'),
  decision(
    'a shadow limit that binds',
    'status.limit.shadow === true) continue',
    'status.limit.shadow !== true) continue',
  ),
  decision('the largest remainder reported', 'remaining = Math.min(', 'remaining = Math.max('),
  decision('further requests rounded up', 'Math.floor(remaining / cost)', 'Math.ceil(remaining / cost)'),
  decision(
    'the shortest wait that binds',
    'status.retryAfter > before.retryAfter',
    'status.retryAfter < before.retryAfter',
  ),
  decision(
    'the last of equal verdicts that binds',
    'further(status) < further(before)',
    'further(status) <= further(before)',
  ),
  decision('a free limit counted in what remains', 'if (status.cost > 0)', 'if (status.cost >= 0)'),
  decision('the shortest delay', 'status.delay > delay', 'status.delay < delay'),

  charges('the smaller of two costs', 'charges[i]!.cost > charges[j]!.cost', 'charges[i]!.cost < charges[j]!.cost'),
  charges('a cost of 0 refused', 'Number.isSafeInteger(cost) && cost >= 0', 'Number.isSafeInteger(cost) && cost > 0'),
  charges('a charge skipped after a duplicate', 'charges.splice(i--, 1)', 'charges.splice(i, 1)'),
  charges('another key taken for the same', 'a.key !== b.key || a.limit.name', 'a.key !== b.key && a.limit.name'),
  charges(
    'limits of two limiters taken for one',
    'a.policy.limiter !== b.policy.limiter ||',
    'a.policy.limiter !== b.policy.limiter &&',
  ),

  trial(
    '`≥` for `>` where a lock opens',
    'slab.lockedUntil(slot)\n    if (this.#until > now)',
    'slab.lockedUntil(slot)\n    if (this.#until >= now)',
  ),
  trial('a lock in the past', 'this.#until = now + limit.block * 1000', 'this.#until = now - limit.block * 1000'),
  trial(
    'a lock told shorter than a wait',
    'charge.retryAfter = Math.max(charge.retryAfter, ms)',
    'charge.retryAfter = Math.min(charge.retryAfter, ms)',
  ),
  trial(
    '`&&` for `||` in what strict charges',
    'admitted || charge.limit.strict === true',
    'admitted && charge.limit.strict === true',
  ),
  trial(
    'a charge told that was not made',
    '!charged && charge.allowed && !admitted',
    '!charged && charge.allowed && admitted',
  ),
  trial(
    'a refund under another algorithm',
    '!takesOver(algorithm, wrote.algorithm)',
    'takesOver(algorithm, wrote.algorithm)',
  ),
  trial('a cost of 0 locked out', 'charge.allowed = charge.cost === 0', 'charge.allowed = charge.cost < 0'),
  trial(
    'milliseconds rounded up',
    'perMs === 1000 ? now : Math.floor(now / 1000)',
    'perMs === 1000 ? now : Math.ceil(now / 1000)',
  ),

  alone('milliseconds rounded up', 'Math.floor(now / 1000)', 'Math.ceil(now / 1000)'),
  alone('nothing kept unless denied', 'charge.allowed || first.outcome', 'charge.allowed && first.outcome'),
  alone('a wait in ticks', 'outcome.retry / perMs', 'outcome.retry * perMs'),
  alone('another limit taken for the same', 'slab.wrote(slot) !== mechanism', 'slab.wrote(slot) === mechanism'),
  alone('a peek of several that charges', 'if (write) keep(seat', 'if (!write) keep(seat'),
  alone('a shadow that denies', ' && charge.limit.shadow !== true', ''),
  alone('strict left out beside others', 'admitted || charge.limit.strict', 'admitted && charge.limit.strict'),
  alone('a lock not looked for', ' || slab.hasLocks', ''),
  alone('a peek that charges', 'if (write) keep(first', 'if (!write) keep(first'),
]
