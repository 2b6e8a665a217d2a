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
const bytesOfKeys = { files: ['test/stores/memory/keys.test.ts', 'test/util/bounded-key.test.ts'] }
const longLists = { files: ['test/stores/memory/entry-lists.test.ts'] }
const threads = inFile('src/stores/memory/cluster-warning.ts', {
  files: ['test/stores/memory/cluster-warning.test.ts'],
})
const lists = inFile('src/stores/memory/entry-lists.ts', longLists)
const spans = inFile('src/stores/memory/entry-spans.ts', longLists)
const counter = inFile('src/algorithms/sliding-window-counter.ts', algorithm('slidingWindowCounter|counter'))
const hybrid = inFile('src/algorithms/quota-linear.ts', algorithm('quotaLinear|hybrid'))
const measured = inFile('src/algorithms/exponential.ts', algorithm('exponential'))
const exponentialMath = inFile('src/algorithms/exponential-math.ts', algorithm('exponential'))

const limiter = inFile('src/limiter/options.ts', {
  files: ['test/limiter/limiter.test.ts', 'test/stores/redis/identity.test.ts'],
})
const clockFault = inFile('src/stores/clock-fault.ts', {
  files: ['test/stores/memory/clock-fault.test.ts', 'test/stores/redis/clock-fault.test.ts'],
})
const faultInMemory = (file) =>
  inFile(`src/stores/memory/${file}.ts`, { files: ['test/stores/memory/clock-fault.test.ts'] })
const outlasting = (file) =>
  inFile(`src/stores/memory/${file}.ts`, {
    files: ['test/stores/redis/initial.test.ts', 'test/limiter/wait.test.ts'],
  })
const changes = (file) =>
  inFile(`src/stores/memory/${file}.ts`, {
    files: ['test/stores/redis/adjust.test.ts', 'test/stores/memory/refund.test.ts'],
  })
const charged = inFile('src/limiter/charged.ts', {
  files: ['test/limiter/limiter.test.ts', 'test/limiter/mistakes.test.ts'],
})
const registered = { files: ['test/limiter/registration.test.ts', 'test/stores/redis/identity.test.ts'] }
const registration = inFile('src/limiter/registration.ts', registered)
const definitions = inFile('src/limiter/keyers.ts', registered)
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

/** Small mistakes in TypeScript: one character or one token each. */
export const typescript = [
  linear(
    '`<` for `≤` where a request just fits',
    'const allowed = cost === 0 || after <= full',
    'const allowed = cost === 0 || after < full',
  ),
  linear('a wait rounded down', 'Infinity : Math.ceil(', 'Infinity : Math.floor('),
  linear('a delay rounded down', 'Math.ceil(debt / drain)', 'Math.floor(debt / drain)'),
  linear('what remains rounded up', 'Math.floor((full - kept) / unit)', 'Math.ceil((full - kept) / unit)'),
  linear('`−` for `+` in a refund', 'Math.max(0, debt + change)', 'Math.max(0, debt - change)'),
  linear(
    'a refund that ignores what has drained',
    'const drained = Math.max(0, now - chargedAt) * params.drain',
    'const drained = 0',
  ),
  linear('a conversion rounded in favour of the client', 'Math.ceil(debt / from.unit)', 'Math.floor(debt / from.unit)'),
  linear(
    'a clock that steps back and drains again',
    'now > last ? (now - last) * params.drain : 0',
    '(now - last) * params.drain',
  ),

  interval(
    '`<` for `≤` where a request just fits',
    'cost === 0 || cost <= capacity - used\n  const persist',
    'cost === 0 || cost < capacity - used\n  const persist',
  ),
  interval('a wait one refill too short', 'start + Math.ceil((kept + cost', 'start + Math.floor((kept + cost'),
  interval('a negative number of remaining tokens', 'Math.max(0, capacity - kept)', 'capacity - kept'),

  partFullBucket('`>` for `≥` where a key is new', 'const isNew = now >= renewal', 'const isNew = now > renewal'),
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
    'const isOpen = used > 0 && now < end',
    'const isOpen = used > 0 && now <= end',
  ),
  fixed(
    '`−` for `+` in what is left of a window',
    '(persist ? time + params.window : end) - now',
    '(persist ? time - params.window : end) - now',
  ),
  fixed('a strict window that does not open anew', 'const opened = persist ? time', 'const opened = false ? time'),
  fixed('no refund of a charge in the first tick', 'used > 0 && chargedAt >= start', 'used > 0 && chargedAt > start'),
  fixed('an offset of a whole window', 'if (offset >= input.window)', 'if (offset > input.window)'),

  log(
    '`<` for `≤` where a request just fits',
    'const allowed = cost === 0 || cost <= quota - sum\n',
    'const allowed = cost === 0 || cost < quota - sum\n',
  ),
  log('`−` for `+` in when an entry ends', 'Infinity : (last + life) * grain', 'Infinity : (last - life) * grain'),
  log('a strict charge above the quota', 'persist ? Math.min(cost, quota) : 0', 'persist ? cost : 0'),
  log('a refund of more than an entry holds', 'units < 0 ? -Math.min(-units, cost)', 'units < 0 ? units'),

  lists('a span that reaches the cost passed', 'sum + spans!.sum(s) < cost', 'sum + spans!.sum(s) <= cost'),
  lists('a refund not taken off its span', 'spans!.change(s, -cost, 0)', 'spans!.change(s, 0, 0)'),
  spans('short spans never joined', '> SPAN) return', '> 0) return'),

  buckets('one bucket forgotten', 'life: buckets + 1', 'life: buckets'),

  counter('strict up to the quota', 'strict === 1 ? 2 * quota', 'strict === 1 ? quota'),
  counter('the older window rounded up', 'const weighted = Math.floor(', 'const weighted = Math.ceil('),
  counter(
    'the older window weighted by its elapsed part',
    'const weighted = Math.floor((previous * (window - elapsed))',
    'const weighted = Math.floor((previous * elapsed)',
  ),
  counter('`+` for `−` in a wait', '/ previous) - elapsed\n  const wait', '/ previous) + elapsed\n  const wait'),
  counter(
    'an estimate rounded down when it moves',
    'current + Math.ceil((previous * left)',
    'current + Math.floor((previous * left)',
  ),

  hybrid('`+` for `−` in the penalty', 'const kept = isLast ? unit - left', 'const kept = isLast ? unit + left'),
  hybrid(
    'the last token overlooked',
    'const isLast = mode !== SMOOTH && after <= 0\n  const kept',
    'const isLast = mode !== SMOOTH && after < 0\n  const kept',
  ),
  hybrid('a negative number of remaining tokens', 'Math.max(0, Math.floor(kept / unit))', 'Math.floor(kept / unit)'),
  hybrid('a wait rounded down', 'const wait = isSmooth ? Math.ceil(', 'const wait = isSmooth ? Math.floor('),
  hybrid(
    'a refund of an earlier window in smooth mode',
    'mode !== FRESH && chargedAt >= start',
    'mode !== FRESH && (isSmooth || chargedAt >= start)',
  ),
  hybrid('the start of a window lost in smooth mode', 'isFresh ? now : cells[offset + 3]!', 'isFresh ? now : latest'),

  measured('`<` for `≤` at the quota', 'cost === 0 || after <= quota', 'cost === 0 || after < quota'),
  exponentialMath(
    'a life one tick too short',
    'Math.floor(window * ln(2 * rate)) + 1\n}',
    'Math.floor(window * ln(2 * rate))\n}',
  ),
  measured(
    'a rate below the request itself',
    'isFresh ? cost : Math.max(cost, cost * share(x, a) + a * rate)',
    'isFresh ? cost : cost * share(x, a) + a * rate',
  ),
  measured('what remains rounded up', 'Math.max(0, Math.floor(quota - kept))', 'Math.max(0, Math.ceil(quota - kept))'),

  registration(
    'limiters of a place that is found later not compared',
    'if (!areShared(a.options, b.options)) warn',
    'if (areShared(a.options, b.options)) warn',
  ),
  registration('both limiters must be shared', 'one.shared === true || other', 'one.shared === true && other'),
  registration('costs not compared', "['keyer', 'limits', 'cost', 'rules'] as", "['keyer', 'limits', 'rules'] as"),
  registration('limits compared as they are written', '[limits].flat().map(normalized)', '[limits].flat()'),
  definitions(
    'functions compared by their text',
    "&& typeof other === 'function') return haveEqualDefinitions(one, other)",
    "&& typeof other === 'function') return String(one) === String(other)",
  ),
  definitions('what a factory was given not compared', ' && isEqual(a.given, b.given)', ''),
  registration(
    'stores of one client counted separately',
    'const place = store.identity ?? store\n  const first',
    'const place = store\n  const first',
  ),
  limiter(
    'wrong options ignored',
    "  knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS)\n",
    '',
  ),
  charged('a refund of a value that is no decision', 'limits.every(isCharge)', 'limits.length > 0'),
  waiter('maxWait as a text is no bound', "return milliseconds('maxWait', maxWait)", 'return Infinity'),
  waiter('a wait measured from now on', 'this.#now() - this.#since + ms >=', 'ms >='),
  decision('a shadow limit that binds', 'if (!isEnforced(status)) continue', 'if (isEnforced(status)) continue'),
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
  clockFault('a fault within a second', 'TOLERANCE_MS * perMs', '0'),
  clockFault('a state left in the future', 'cells[newest]! * newestTicks - tick', '0'),
  clockFault(
    'a state left in the future in Lua',
    'params, kind.times[newest]) - tick',
    'params, kind.times[newest]) * 0',
  ),
  faultInMemory('slab')(
    'memory kept until a wrong clock is reached',
    'Math.min(expiry, second',
    'Math.max(expiry, second',
  ),
  clockFault(
    'a lock-out of a wrong clock kept',
    'since > now + TOLERANCE_MS * 1000 ?',
    'since < now - TOLERANCE_MS * 1e9 ?',
  ),
  clockFault('a lock-out of a wrong clock kept in Lua', '1000 and now + (ending', '1000 and since + (ending'),
  faultInMemory('adjust')('a refund to a wrong clock', 'chargedAt <= now + TOLERANCE_MS * 1000', 'chargedAt > 0'),
  inFile('src/stores/memory/adjust.ts', { files: ['test/stores/memory/overflow.test.ts'] })(
    'a settlement that ends with the limit of its charge',
    'Math.max(life, this.#life(writer, at, units, now))',
    'life',
  ),
  inFile('src/limiter/wait-queue.ts', { files: ['test/limiter/wait-order.test.ts'] })(
    'a queue for each guard of a store',
    'const place = store.identity ?? store',
    'const place = store',
  ),
  outlasting('state')('a key that is new before its wait is over', 'renewal]! >= ending', 'renewal]! >= tick'),
  outlasting('locker')('a block that a key does not outlast', 'attempt.moveRenewal(under, length)', ''),
  outlasting('locker')('a block without a beginning', 'under.capacity + 1)', '0)'),
  outlasting('forecast')('a birth forgotten in a forecast', 'if (persist) attempt', 'if (!persist) attempt'),
  changes('adjust')('a refund of a charge before a change', '!slab.hasChanged(slot, chargedAt, now) && ', ''),
  inFile('src/stores/memory/sketch.ts', { files: ['test/stores/memory/overflow.test.ts'] })(
    'a refund of a charge that was in a counter of others',
    'this.#claims[slot] = now',
    '',
  ),
  inFile('src/stores/memory/overflow.ts', { files: ['test/stores/memory/overflow.test.ts'] })(
    'what a key owes under another limit lost to another key of its transaction',
    'if (lost > now)',
    'if (lost < now)',
  ),
  changes('state')('a refund of a charge before a reset', 'slab.markChange(slot, now, until)\n', ''),
  inFile('src/stores/memory/sketch.ts', { files: ['test/stores/memory/overflow.test.ts'] })(
    'a refund, beyond maxKeys, of a charge before a reset',
    '!reset(this.slab, slot, now)',
    'true',
  ),
  inFile('src/stores/memory/sketch.ts', { files: ['test/stores/memory/overflow.test.ts'] })(
    'a refund, in a table, of a charge before a reset',
    'this.#lastReset = now',
    '',
  ),
  changes('slab')('a change noted when nothing is left to change', 'if (until <= now) return\n', ''),
  changes('slab')(
    'a change forgotten with what comes after',
    ', this.changeUntil(slot))\n    this.#exp',
    ', 0)\n    this.#exp',
  ),
  slab(
    'another limit taken for the same',
    'this.writtenBy(slot) !== compiled) return',
    'this.writtenBy(slot) === compiled) return',
  ),
  slab('a lock not looked for', 'this.locks[2 * slot] !== 0) return false', 'this.locks[2 * slot] === 0) return false'),
  inFile('src/stores/memory/slab.ts', bytesOfKeys)(
    'a sketch that expires from 2106 on',
    'expiry <= second && expiry < NEVER',
    'expiry <= second && expiry !== NEVER',
  ),
  inFile('src/limits/limit.ts', bytesOfKeys)(
    'a name that keeps a header in memory',
    'return copyText(name)',
    'return name',
  ),
  inFile('src/limiter/keyers.ts', bytesOfKeys)(
    'a number of any length as a key',
    'return boundedKey(String(key))',
    'return String(key)',
  ),
  inFile('src/stores/memory/locker.ts', { files: ['test/stores/memory/locker.test.ts'] })(
    'a row of several keys locked for a shorter time than before',
    "isOwn ? mode : 'extend'",
    'mode',
  ),
  inFile('src/stores/guard/core.ts', { files: ['test/stores/guard/locks.test.ts'] })(
    'a lock-out that was reset in an outage sent later',
    'this.#backlog.forget(limiter, key)',
    'void this.#backlog',
  ),
  locking('`≥` for `>` where a lock opens', 'if (attempt.lockedUntil > now)', 'if (attempt.lockedUntil >= now)'),
  locking('a lock in the past', 'attempt.lockedUntil = now + length', 'attempt.lockedUntil = now - length'),
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
  threads('a warning about threads of different files', 'data.file !== file || ', ''),
  threads('a warning about two copies in one thread', ' || data.from === from', ''),
  threads('no reply to a later thread', 'if (!data.isReply) send', 'if (data.isReply) send'),
  threads('a warning in the threads of a test runner', '!isTestRun(process)', '(!isTestRun(process) || process)'),
]
