import { inFile } from './mutation.mjs'

/** Tests of one algorithm, without those that compare it with Lua. */
function algorithm(name) {
  const files = ['adjust', 'contract', 'convert', 'examples', 'model', 'options']
  return { files: files.map((file) => `test/algorithms/${file}.test.ts`), name }
}

const linear = inFile('src/algorithms/gcra.ts', algorithm('gcra|tokenBucket|leaky'))
const interval = inFile('src/algorithms/token-bucket-interval.ts', algorithm('tokenBucket|token bucket'))
const partFullBucket = inFile('src/algorithms/token-bucket-initial.ts', algorithm('tokenBucket|start full'))
const fixed = inFile('src/algorithms/fixed-window.ts', algorithm('fixedWindow|fixed window|offset'))
const log = inFile('src/algorithms/sliding-window-log.ts', algorithm('slidingWindowLog|the log|a log'))
const buckets = inFile('src/algorithms/sliding-window-buckets.ts', algorithm('slidingWindowBuckets|buckets'))
const hashes = { files: ['test/util/sha256.test.ts'] }
const bytesOfKeys = { files: ['test/stores/memory/keys.test.ts', 'test/util/bounded-key.test.ts'] }
const clusterTests = { files: ['test/stores/memory/cluster-warning.test.ts'] }
const cluster = inFile('src/stores/memory/cluster-warning.ts', clusterTests)
const threads = inFile('src/util/warnings/threads.ts', { files: ['test/util/threads.test.ts'] })
const entries = inFile('src/algorithms/entries.ts', { files: ['test/algorithms/entries.test.ts'] })
const counter = inFile('src/algorithms/sliding-window-counter.ts', algorithm('slidingWindowCounter|counter'))
const hybrid = inFile('src/algorithms/quota-linear.ts', algorithm('quotaLinear|hybrid'))
const measured = inFile('src/algorithms/exponential.ts', algorithm('exponential'))

const engine = (file, files) => inFile(`src/engine/${file}.ts`, { files })
const row = engine('row', ['test/stores/memory/clock-fault.test.ts', 'test/stores/redis/clock-fault.test.ts'])
const clockFault = inFile('src/util/ticks.ts', {
  files: ['test/stores/memory/clock-fault.test.ts', 'test/stores/redis/clock-fault.test.ts'],
})
const alternating = (file) => inFile(file, { files: ['test/engine/alternating.test.ts'] })
const changedRow = engine('row', ['test/stores/redis/adjust.test.ts', 'test/stores/memory/refund.test.ts'])
const adjusted = engine('adjust', [
  'test/stores/redis/adjust.test.ts',
  'test/stores/memory/refund.test.ts',
  'test/stores/memory/clock-fault.test.ts',
  'test/stores/memory/locker.test.ts',
])
const codec = engine('codec', ['test/stores/rows/rows.test.ts'])
const rows = inFile('src/stores/rows.ts', { files: ['test/stores/rows/rows.test.ts'] })
const givenUp = inFile('src/stores/store.ts', { files: ['test/stores/rows/rows.test.ts'] })
const deciding = engine('decide', [
  'test/stores/memory/decide.test.ts',
  'test/stores/rows/rows.test.ts',
  'test/limiter/limiter.test.ts',
  'test/limiter/block.test.ts',
  'test/limiter/wait.test.ts',
  'test/testing/testing.test.ts',
])
const shared = inFile('src/stores/memory/shared-rows.ts', {
  files: ['test/stores/memory/overflow.test.ts', 'test/stores/memory/locker.test.ts'],
})
const tables = inFile('src/stores/memory/tables.ts', { files: ['test/stores/memory/locker.test.ts'] })
const aheadOf = inFile('src/engine/adjust.ts', {
  files: ['test/stores/redis/clock-fault.test.ts'],
  name: 'clock ahead',
})
const keysOfMetrics = { files: ['test/metrics/prometheus.test.ts'], name: 'sluice_keys' }
const keyCount = inFile('src/stores/memory/tables.ts', keysOfMetrics)
const plain = {
  files: [
    ...['decide', 'memory-store', 'clock-fault', 'growing-block', 'locker'].map(
      (name) => `test/stores/memory/${name}.test.ts`,
    ),
    'test/limiter/limiter.test.ts',
    'test/stores/redis/clock-fault.test.ts',
  ],
}
const cursor = inFile('src/stores/memory/table.ts', plain)
const storeFile = inFile('src/stores/store.ts', { files: ['test/stores/contract.test.ts'] })
const cursors = inFile('src/stores/memory/index.ts', plain)
const rareRows = inFile('src/stores/memory/rare.ts', { files: ['test/stores/memory/overflow.test.ts'] })
const equalTicks = inFile('src/util/ticks.ts', { files: ['test/stores/redis/equality.test.ts'] })
const table = inFile('src/stores/memory/table.ts', {
  files: ['test/stores/memory/clock-fault.test.ts', 'test/stores/memory/memory-store.test.ts'],
})
const charged = inFile('src/limiter/charges.ts', {
  files: ['test/limiter/limiter.test.ts', 'test/limiter/mistakes.test.ts'],
})
const registered = { files: ['test/limiter/registration.test.ts', 'test/stores/redis/identity.test.ts'] }
const registration = inFile('src/limiter/registration.ts', registered)
const definitions = inFile('src/limiter/keyers.ts', registered)
const waiter = inFile('src/limiter/queue/wait-queue.ts', { files: ['test/limiter/wait.test.ts'] })
const loadsQueues = inFile('src/limiter/wait-place.ts', { files: ['test/limiter/wait-loading.test.ts'] })
const marks = inFile('src/limiter/queue/marks.ts', { files: ['test/limiter/wait-processes.test.ts'] })
const decision = inFile('src/limiter/decision.ts', {
  files: ['test/limiter/decision.test.ts', 'test/limiter/limiter.test.ts'],
})
const charges = inFile('src/limiter/charges.ts', {
  files: ['test/limiter/charges.test.ts', 'test/limiter/limiter.test.ts'],
})

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
  linear(
    'a conversion rounded in favour of the client',
    'convertDebt(debt, from.unit, params.unit)',
    'Math.floor(debt / from.unit) * params.unit',
  ),
  linear(
    'a clock that steps back and drains again',
    'now > last ? (now - last) * params.drain : 0',
    '(now - last) * params.drain',
  ),

  interval(
    '`<` for `≤` where a request just fits',
    'cost === 0 || cost <= capacity - used',
    'cost === 0 || cost < capacity - used',
  ),
  interval('a wait one refill too short', 'start + Math.ceil((kept + cost', 'start + Math.floor((kept + cost'),
  interval('a negative number of remaining tokens', 'Math.max(0, capacity - kept)', 'capacity - kept'),

  partFullBucket('`>` for `≥` where a key is new', 'const isNew = now >= renewal', 'const isNew = now > renewal'),
  partFullBucket(
    'a key that is new without a window of waiting',
    'Math.max(renewal, now + out.reset + params.idle)',
    'Math.max(renewal, now + out.reset)',
  ),
  inFile('src/algorithms/token-bucket-initial.ts', { files: ['test/stores/redis/initial.test.ts'] })(
    'a key that is new after each lock-out',
    'Math.max(input.window, longestBlock(input))',
    'input.window',
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

  entries('a copy that counts dropped units again', 'copy.#dropped = dropped', 'copy.#dropped = this.#dropped'),
  entries('an entry passed that has the cost', 'orEqual && each === bound', '!orEqual && each === bound'),
  entries('a refund that leaves later totals', 'this.#totals[i]! -= taken', 'this.#totals[at]! -= taken'),
  entries('totals beyond 2^53', '> Number.MAX_SAFE_INTEGER) this.#pack()', '< 0) this.#pack()'),

  buckets('one bucket forgotten', 'life: buckets + 1', 'life: buckets'),

  counter('strict up to the quota', 'strict === 1 ? 2 * quota', 'strict === 1 ? quota'),
  counter('the older window rounded up', 'const weighted = Math.floor(', 'const weighted = Math.ceil('),
  counter(
    'the older window weighted by its elapsed part',
    'const weighted = Math.floor((previous * (window - elapsed))',
    'const weighted = Math.floor((previous * elapsed)',
  ),
  counter(
    '`+` for `−` in a wait',
    '/ previous) - elapsed\n    retry = cost > quota ?',
    '/ previous) + elapsed\n    retry = cost > quota ?',
  ),
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
  measured(
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
    'both limiters must be shared',
    'options.shared === true || options',
    'options.shared === true && options',
  ),
  registration('costs not compared', "['keyer', 'limits', 'cost', 'rules'] as", "['keyer', 'limits', 'rules'] as"),
  registration(
    'limits compared as they are written',
    "if (part !== 'limits' || given === undefined)",
    'if (part !== undefined)',
  ),
  definitions(
    'functions compared by their text',
    "&& typeof other === 'function') return haveEqualDefinitions(one, other)",
    "&& typeof other === 'function') return String(one) === String(other)",
  ),
  definitions('what a factory was given not compared', ' && isEqual(a.given, b.given)', ''),
  registration(
    'stores of one client counted separately',
    'const first = homes.get(store.place)',
    'const first = homes.get(store)',
  ),
  inFile('src/limiter/default-limiter.ts', { files: ['test/limiter/limiter.test.ts'] })(
    'wrong options ignored',
    "knownOptions(mode === 'peek' ? 'peek' : 'consume', options, CONSUME_OPTIONS).cost",
    'options.cost',
  ),
  charged('a refund of a value that is no decision', 'limits.every(isCharge)', 'limits.length > 0'),
  waiter('many waiters that ask as often as one', 'Math.max(least, this.#asking)', 'least'),
  waiter('maxWait as a text is no bound', "return tools.milliseconds('maxWait', maxWait)", 'return Infinity'),
  waiter('a wait measured from now on', 'const total = this.waited + ms', 'const total = ms'),
  decision('a shadow limit that binds', 'if (!counts(status)) continue', 'if (counts(status)) continue'),
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
    'what a key has without a charge that was made',
    'if (admitted || charge.cost === 0) return',
    'if (!admitted || charge.cost === 0) return',
  ),
  deciding('a peek that charges', 'else if (write) keep(row', 'else if (!write) keep(row'),
  deciding('a shadow limit that denies', 'if (compiled.enforced) admitted', 'admitted'),
  deciding('`≥` for `>` where a lock opens', 'if (row.locked > now) denyLocked', 'if (row.locked >= now) denyLocked'),
  inFile('src/engine/decide.ts', { files: ['test/stores/rows/rows.test.ts'], name: 'locked out' })(
    'a denial of a locked key that writes',
    ' && row.locked !== row.lockedUntil',
    '',
  ),
  deciding('a lock in the past', 'row.locked = now + length', 'row.locked = now - length'),
  deciding(
    'a lock reported shorter than a wait',
    'charge.retryAfter = Math.max(charge.retryAfter, ms)',
    'charge.retryAfter = Math.min(charge.retryAfter, ms)',
  ),
  deciding('a cost of 0 locked out', 'charge.allowed = charge.cost === 0', 'charge.allowed = charge.cost < 0'),
  deciding('a wait in ticks', 'outcome.retry / charge.policy', 'outcome.retry * charge.policy'),
  clockFault('a fault within a second', 'TOLERANCE_MS * perMs', '0'),
  row('a state left in the future', 'moved[newest]! * newestTicks - this.tick', '0'),
  inFile('src/stores/redis/lua/state.lua', { files: ['test/stores/redis/clock-fault.test.ts'] }, 'Lua')(
    'a state left in the future in Lua',
    'params, kind.times[newest]) - tick',
    'params, kind.times[newest]) * 0',
  ),
  row('a lock-out of a wrong clock kept', 'since > now + TOLERANCE_MS * 1000 ?', 'since < now - TOLERANCE_MS * 1e9 ?'),
  inFile('src/stores/redis/lua/state.lua', { files: ['test/stores/redis/clock-fault.test.ts'] }, 'Lua')(
    'a lock-out of a wrong clock kept in Lua',
    '1000 and now + (ending',
    '1000 and since + (ending',
  ),
  table('memory kept until a wrong clock is reached', 'Math.min(expiry, second', 'Math.max(expiry, second'),
  aheadOf('a refund to a wrong clock', 'chargedAt <= now + TOLERANCE_MS * 1000', 'chargedAt > 0'),
  adjusted('a refund of a charge before a change', '!row.hasChanged(chargedAt, now) && ', ''),
  adjusted(
    'a refund under another algorithm',
    '!isCompatible(algorithm, writer.algorithm)',
    'isCompatible(algorithm, writer.algorithm)',
  ),
  adjusted('a row of several keys locked for a shorter time', 'if (isLonger && row.isShared) return length === 0', ''),
  changedRow(
    'a refund of a charge before a reset',
    'if (until > now) this.noteChange(now, until)\n  }\n\n  /** Returns true',
    '}\n\n  /** Returns true',
  ),
  changedRow('a change forgotten with what comes after', 'Math.max(until, this.changeUntil)', 'until'),
  inFile('src/engine/row.ts', { files: ['test/stores/memory/overflow.test.ts'] })(
    'a state that starts at the time of another key',
    'if (this.isShared) compiled.algorithm.toShared',
    'if (!this.isShared) compiled.algorithm.toShared',
  ),
  alternating('src/engine/row.ts')(
    'what a smaller capacity cuts off forgotten',
    'this.cut = outcome.charged',
    'this.cut = 0',
  ),
  alternating('src/engine/row.ts')(
    'what was cut off counted for ever',
    'writer !== undefined && this.changeUntil > now ? this.rare[CUT]! : 0',
    'writer !== undefined ? this.rare[CUT]! : 0',
  ),
  alternating('src/engine/row.ts')(
    'a charge that does not prolong what was cut off',
    'this.changeUntil + longer',
    'this.changeUntil',
  ),
  alternating('src/algorithms/arithmetic.ts')(
    'a debt rounded up to whole units',
    'Math.ceil((debt - units * from) * (to / from))',
    '(debt > units * from ? to : 0)',
  ),
  alternating('src/algorithms/fixed-window.ts')(
    'a count cut off at a smaller quota',
    'isSame ? used : Math.min(used, params.quota)',
    'Math.min(used, params.quota)',
  ),
  alternating('src/algorithms/sliding-window-log.ts')(
    'entries cut off at a smaller quota',
    'isSame && from.life === params.life ? sum : ',
    '',
  ),
  alternating('src/algorithms/sliding-window-counter.ts')(
    'a count cut off and forgotten',
    'isSame ? current - used + Math.ceil(',
    'isSame ? Math.ceil(',
  ),
  alternating('src/algorithms/token-bucket-interval.ts')(
    'tokens cut off and forgotten',
    'isSame ? used - out.next[0] : 0',
    '0',
  ),
  alternating('src/algorithms/exponential.ts')(
    'a rate cut off and forgotten',
    'isSameWindow ? Math.max(0, held - full(params)) : 0',
    '0',
  ),
  alternating('src/algorithms/quota-linear.ts')('a penalty cut off and forgotten', 'isSame ? cut : 0', '0'),
  codec('a row that is not checked', 'if (sum === hash(limits) && ', 'if ('),
  codec('a row that another program has made longer', " && text.endsWith('}')", ''),
  codec('a log that is not in order', 'if (!(time > newest) || !(cost > 0))', 'if (!(cost > 0))'),
  codec(
    'a number that JSON does not have',
    'Array.from(row.cells.subarray(0, writer.cells), jsonOf)',
    '[...row.cells.subarray(0, writer.cells)]',
  ),
  codec('a row that may be of any size', 'if (row.length > MOST_BYTES)', 'if (row.length > 2 * MOST_BYTES)'),
  rows('two transactions on one key', 'const taken = new Set(this.#taken)', 'const taken = new Set<string>()'),
  rows(
    'bytes of another context that are refused',
    "Object.prototype.toString.call(stored) === '[object Uint8Array]'",
    'stored instanceof Uint8Array',
  ),
  rows('a transaction with too many keys', 'keys.size + added.length <= mostKeys', 'keys.size <= mostKeys'),
  rows('an operation with too many keys that never runs', '(batch.length === 0 || keys.size', '(keys.size'),
  rows('a limit of keys that is not checked', "if (mostKeys !== undefined) wholeNumber('mostKeys', mostKeys)", ''),
  rows(
    'an operation that overtakes another one',
    'for (const key of apart === undefined ? each.keys : [apart]) taken.add(key)',
    'void taken',
  ),
  rows(
    'a read-only transaction that is not marked',
    "every(({ operation }) => operation.kind === 'peek')",
    "every(({ operation }) => operation.kind !== 'peek')",
  ),
  givenUp(
    'a decision that is given up and stays charged',
    'if (this.isGivenUp) await undo',
    'if (!this.isGivenUp) await undo',
  ),
  inFile('src/stores/store.ts', { files: ['test/stores/remote.test.ts'], name: 'given up' })(
    'verdicts of a decision that is given up',
    'this.operation = { ...this.operation, charges: copiesOf(this.operation.charges) }',
    '',
  ),
  inFile('src/stores/rows.ts', { files: ['test/stores/rows/locked.test.ts'] })(
    'an operation that is given up and sent',
    'if (this.#waiting.delete(waiting))',
    'if (!this.#waiting.has(waiting))',
  ),
  inFile('src/stores/redis/index.ts', { files: ['test/testing/testing.test.ts'], name: 'redisStore' })(
    'a decision that cannot be given up',
    'return () => decision.giveUp()',
    'return () => undefined',
  ),
  rows('an attempt that stays in a charge', 'charge.markCharged(0, 0)', 'void charge'),
  shared(
    'a key that pays for others under another limit',
    'if (row.isShared && isOther && row.countsUntil(now) > now) deny(row, now)',
    '',
  ),
  shared('a row of several keys taken for one', 'row.isShared ? SEVERAL : this.#markOf(key)', 'this.#markOf(key)'),
  tables('shared rows that are never dropped', '    if (beyond.rows?.hasExpired(now)) beyond.rows = undefined\n', ''),
  tables('a key that stays in a shared row', '    if (!table.isFull) beyond.rows.promote(row, compiled, now)\n', ''),
  aheadOf('a refund from what a clock ahead has charged', '  if (units < 0 && row.isCarriedOver) return\n', ''),
  aheadOf('a renewal in what a clock ahead has charged', 'else if (row.isCarriedOver) return NOT_HELD', ''),
  shared(
    'a refund, in a table, of a charge that others shared',
    'if (isShared) row.noteChange(now, until)',
    'if (isShared) row.until = until',
  ),
  inFile('src/stores/memory/key-counts.ts', keysOfMetrics)(
    'keys that have expired and are counted',
    'forgetExpired(tables)\n',
    '\n',
  ),
  keyCount(
    'a count that moves slots under a decision',
    'this.#full.push({ limiter, limit, maxKeys: this.#maxKeys })',
    'this.#onFull({ limiter, limit, maxKeys: this.#maxKeys })',
  ),
  alternating('src/stores/memory/table.ts')(
    'in place a state of a changed limit',
    'this.#writerOf(slot)?.signature === compiled.signature && ',
    '',
  ),
  cursor('in place a key that is locked out', ' && !(this.#hasRare && this.#isRare(slot))', ''),
  cursor(
    'in place the keys that have rare parts, as before',
    '    this.#hasRare = true\n    this.#plainFor = undefined',
    '    this.#hasRare = true',
  ),
  cursor(
    'a new key in a full table',
    'this.beyond.rows === undefined && !this.isFull ? NOWHERE : undefined',
    'NOWHERE',
  ),
  storeFile('passes a wrapper by', 'direct?.run === store.run ?', 'direct !== undefined ?'),
  cursors(
    'in place a state of a clock that ran ahead',
    '    if (isAhead(compiled, cells, at, tick)) return false\n',
    '',
  ),
  cursors(
    'adjusts a state of a clock that ran ahead in its place',
    '    if (isAhead(compiled, slab.cells, at, tick)) return false\n',
    '',
  ),
  cursors('a denial that begins a lock-out', '    if (compiled.block > 0) return undefined\n', ''),
  cursors('strict limits among others, one by one', ' || (compiled.strict && charges.length > 1)', ''),
  cursors('a shadow limit as an enforced one', 'if (compiled.enforced) admitted = false', 'admitted = false'),
  cursors('a verdict of a charge that another limit has denied', '      report(outcome, charge)\n', ''),
  cursors(
    'in place a refund of a charge of a clock that ran ahead',
    ' || charge.at * compiled.micros > now) return false',
    ') return false',
  ),
  cursors('in place a refund that changes nothing', 'if (!outcome.persist) return true', 'return true'),
  cursors('no sweep', 'if (--table.untilSweep <= 0) sweepIsDue = true', '--table.untilSweep'),
  inFile('src/stores/memory/key-counts.ts', keysOfMetrics)(
    'metrics that fail with a clock',
    'continue without it.\n    return',
    'continue without it.\n    throw new Error()',
  ),
  inFile('src/stores/memory/table.ts', keysOfMetrics)(
    'a count of keys that takes any time',
    'left > 0 && performance.now() < end',
    'left > 0 && now < end + Infinity',
  ),
  rareRows('two keys of a decision in a row, and one pays', 'row.ahead += other.cost', 'row.ahead += 0'),
  waiter('a waiter that misses what comes while it asks', 'if (isOutdated) return', ''),
  marks('a request that never waits, and does not look', 'if (waits) line.waited = now', 'if (!waits) return'),
  marks('a mark that does not grow', 'Math.log2(1 + Math.max(0, waited))', '4'),
  marks('a mark that stays after its request', 'if (line === undefined || line.own <= line.other) return', 'return'),
  inFile('src/limiter/queue/turns.ts', { files: ['test/limiter/wait-model.test.ts'] })(
    'a turn that stays with one key',
    'tenant.turn = ++this.#count',
    'tenant.turn += 0',
  ),
  inFile('src/limiter/queue/wait-queue.ts', { files: ['test/limiter/wait-model.test.ts'] })(
    'waiters in a line that did not deny them',
    'decision.limits.indexOf(decision.binding!)',
    'group.lines.length - 1',
  ),
  waiter(
    'a denial that is refunded',
    'if (!this.waiters.has(waiter)) {\n      if (decision.allowed) await',
    'if (!this.waiters.has(waiter)) {\n      await',
  ),
  loadsQueues('a queue that fails for good', 'loading = undefined\n', ''),
  inFile('src/limiter/wait-place.ts', { files: ['test/limiter/wait.test.ts'] })(
    'a queue for each guard of a store',
    'madeOnce(places, store.place',
    'madeOnce(places, store',
  ),
  inFile('src/limiter/queue/wait-queue.ts', {
    files: ['test/limiter/wait.test.ts'],
  })('waiters ahead that cost nothing', 'Math.max(cost, Math.min(sum, policy.compiled.capacity))', 'cost'),
  inFile('src/util/sha256.ts', hashes)(
    'a block that is too long for its length',
    'message.length + 1 + LENGTH',
    'message.length + LENGTH',
  ),
  inFile('src/util/sha256.ts', hashes)(
    'a long secret that is cut',
    'key.length > BLOCK ? sha256(key) : key',
    'key.subarray(0, BLOCK)',
  ),
  inFile('src/stores/memory/table.ts', bytesOfKeys)(
    'rows that expire from 2106 on',
    'expiry <= second && expiry < NEVER',
    'expiry <= second && expiry !== NEVER',
  ),
  inFile('src/engine/limit.ts', bytesOfKeys)(
    'a name that keeps a header in memory',
    'return copyText(name)',
    'return name',
  ),
  inFile('src/limiter/keyers.ts', bytesOfKeys)(
    'a number of any length as a key',
    'return boundedKey(String(key))',
    'return String(key)',
  ),
  inFile('src/stores/guard/guarded-store.ts', { files: ['test/stores/guard/locks.test.ts'] })(
    'a lock-out that was reset in an outage sent later',
    'this.#backlog.forget(limiter, key)',
    'void this.#backlog',
  ),
  equalTicks('milliseconds rounded up', 'Math.floor(now / 1000)', 'Math.ceil(now / 1000)'),
  threads('a warning about threads of different files', 'data.file !== file || ', ''),
  threads('a warning about two copies in one thread', ' || data.from === from', ''),
  threads('no reply to a later thread', 'if (!data.isReply) send', 'if (data.isReply) send'),
  cluster(
    'a warning in the threads of a test runner',
    'file !== undefined && !isTestRun(process)',
    'file !== undefined',
  ),
]
