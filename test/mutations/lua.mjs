import { inFile } from './mutation.mjs'

/** The comparison of one algorithm's Lua with its TypeScript. */
const twins = (name) => ({ files: ['test/algorithms/lua.test.ts'], name })

const comparison = 'test/stores/redis/equality.test.ts'
const decisions = {
  files: [
    'test/stores/redis/plain.test.ts',
    'test/stores/redis/expiry.test.ts',
    'test/stores/redis/adjust.test.ts',
    comparison,
  ],
}
const logs = {
  files: ['test/stores/redis/entries.test.ts', 'test/stores/redis/initial.test.ts', comparison],
  name: 'entries|slidingWindowLog|keeps what was used',
}

const prelude = inFile('src/algorithms/arithmetic.lua', { files: ['test/algorithms/lua.test.ts'] }, 'Lua')
const linear = inFile('src/algorithms/gcra.lua', twins('gcra|leakyBucket'), 'Lua')
const interval = inFile('src/algorithms/token-bucket-interval.lua', twins('tokenBucket'), 'Lua')
const partFullBucket = inFile('src/algorithms/token-bucket-initial.lua', twins('tokenBucket'), 'Lua')
const fixed = inFile('src/algorithms/fixed-window.lua', twins('fixedWindow'), 'Lua')
const log = inFile('src/algorithms/sliding-window-log.lua', twins('slidingWindow(Log|Buckets)'), 'Lua')
const counter = inFile('src/algorithms/sliding-window-counter.lua', twins('slidingWindowCounter'), 'Lua')
const hybrid = inFile('src/algorithms/quota-linear.lua', twins('quotaLinear'), 'Lua')
const measured = inFile('src/algorithms/exponential.lua', twins('exponential'), 'Lua')

const library = inFile('src/stores/redis/library.ts', decisions, 'Lua')
const requests = inFile('src/stores/redis/lua/requests.lua', decisions, 'Lua')
const decide = inFile('src/stores/redis/lua/decide.lua', decisions, 'Lua')
const locks = inFile(
  'src/stores/redis/lua/decide.lua',
  { files: ['test/testing/testing.test.ts'], name: 'redisStore' },
  'Lua',
)
const adjust = inFile('src/stores/redis/lua/adjust.lua', decisions, 'Lua')
const locking = inFile('src/stores/redis/lua/adjust.lua', { files: ['test/stores/redis/clock-fault.test.ts'] }, 'Lua')
const changes = inFile('src/stores/redis/lua/adjust.lua', { files: ['test/stores/redis/adjust.test.ts'] }, 'Lua')
const lockedAndNew = inFile(
  'src/stores/redis/lua/adjust.lua',
  { files: ['test/stores/redis/changed-retry.test.ts', 'test/stores/redis/equality.test.ts'] },
  'Lua',
)
const reset = inFile('src/stores/redis/lua/adjust.lua', { files: ['test/stores/redis/reset.test.ts'] }, 'Lua')
const reply = inFile('src/stores/redis/lua/call.lua', decisions, 'Lua')
const state = inFile('src/stores/redis/lua/state.lua', decisions, 'Lua')
const records = inFile('src/stores/redis/lua/records.lua', decisions, 'Lua')
const names = inFile('src/stores/redis/lua/records.lua', logs, 'Lua')
const alternating = inFile(
  'src/stores/redis/lua/records.lua',
  { files: ['test/engine/alternating.test.ts'], name: 'in redis' },
  'Lua',
)
const manyNames = inFile('src/stores/redis/lua/records.lua', { files: ['test/stores/redis/names.test.ts'] }, 'Lua')
const failures = inFile(
  'src/stores/redis/lua/requests.lua',
  { files: ['test/stores/redis/own-algorithm.test.ts'] },
  'Lua',
)
const checks = inFile('src/stores/redis/lua/call.lua', { files: ['test/stores/redis/own-algorithm.test.ts'] }, 'Lua')
const logState = inFile('src/stores/redis/lua/state.lua', logs, 'Lua')
const blocks = { files: ['test/stores/redis/blocks.test.ts'] }
const entries = inFile('src/stores/redis/lua/entries.lua', blocks, 'Lua')

const linted = { files: ['test/package/lua.test.ts'] }
const lint = inFile('src/algorithms/gcra.lua', linted, 'Lua')
const shared = inFile('src/stores/redis/library.ts', { files: ['test/stores/redis/clock-fault.test.ts'] }, 'Lua')

/** Small mistakes in Lua only, so that TypeScript and Lua differ. */
export const lua = [
  prelude(
    'a coarser tick rounded up',
    'return floor(ticks / (from.perMs / to.perMs))',
    'return ceil(ticks / (from.perMs / to.perMs))',
  ),
  prelude('another largest number', 'local LARGEST = 4503599627370496', 'local LARGEST = 4503599627370495'),
  linear(
    '`<` for `≤` where a request just fits',
    'local allowed = cost == 0 or after <= full',
    'local allowed = cost == 0 or after < full',
  ),
  linear('a wait rounded down', 'and huge or ceil(', 'and huge or floor('),
  linear('`−` for `+` in a refund', 'min(max(0, debt + change), LARGEST)', 'min(max(0, debt - change), LARGEST)'),
  interval('a reset rounded down', 'local reset = start + ceil(', 'local reset = start + floor('),
  interval(
    '`>` for `≥` where a bucket is full',
    'if refills >= ceil(used / params.quota) then',
    'if refills > ceil(used / params.quota) then',
  ),
  partFullBucket('`≤` for `<` where a key is new', 'if now < renewal then', 'if now <= renewal then'),
  partFullBucket(
    'a key that is new without a window of waiting',
    'max(renewal, now + reset + params.idle)',
    'max(renewal, now + reset)',
  ),
  partFullBucket('a key that is new again after a refund', '(units > 0 or not isNew)', '(units > 0 or isNew)'),
  fixed('`≤` for `<` at the end of a window', 'now < ending then return max', 'now <= ending then return max'),
  fixed(
    'no refund of a charge in the first tick',
    '(used > 0 and chargedAt >= start)',
    '(used > 0 and chargedAt > start)',
  ),
  log(
    '`<` for `≤` where a request costs the whole quota',
    'local allowed = cost == 0 or cost <= quota - sum',
    'local allowed = cost == 0 or cost < quota - sum',
  ),
  log(
    'too little dropped for a smaller quota',
    'over + (isSame and sum - kept or sum)',
    'over + (isSame and 0 or sum)',
  ),
  counter('the older window rounded up', 'local weighted = floor(', 'local weighted = ceil('),
  counter(
    'another window taken for the previous one',
    'latest == number + 1 and current or 0',
    'latest == number - 1 and current or 0',
  ),
  hybrid(
    '`+` for `−` in the penalty',
    'isLast and unit - left * drain or after\n',
    'isLast and unit + left * drain or after\n',
  ),
  hybrid(
    'a refund of an earlier window in smooth mode',
    'mode ~= FRESH and chargedAt >= start',
    'mode ~= FRESH and (isSmooth or chargedAt >= start)',
  ),
  hybrid('the smaller of two penalties', 'or used - cut * params.unit)', 'or max(used, most) - cut * params.unit)'),
  measured('a life rounded up', 'and 0 or floor(p.window * ln', 'and 0 or ceil(p.window * ln'),
  measured('the smaller of two rates', 'isFresh and cost or max(cost,', 'isFresh and cost or min(cost,'),
  measured('a logarithm of another half', 'while y > 1.4142135623730951 do', 'while y > 0.6931471805599453 do'),

  lint('a variable that is not used', 'local lag = time - now', 'local lag, left = time - now, 0'),
  lint('a name that nothing has', 'params.unit, debt == 0 and -huge', 'params.unit, debt == 0 and -hugh'),
  inFile('.luacheckrc', linted, 'Lua')(
    'a global that Redis does not have',
    "'unpack', 'xpcall',",
    "'unpack', 'xpcall', 'print',",
  ),
  inFile('build/texts.mjs', linted)('comments sent to Redis', '(?:--.*)?/gm', '/gm'),
  inFile('build/texts.mjs', linted)('Lua with other numbers of lines', '(?:--.*)?/gm', '(?:--.*\\n)?/gm'),
  shared('another tolerance of clocks in Lua', '= ${[TOLERANCE_MS,', '= ${[1e9,'),

  library('a new key in the future', "=== -Infinity ? '-huge'", "=== -Infinity ? 'huge'"),
  reply('milliseconds taken for microseconds', "words[1] == '' and 1000 or", "words[1] == '' and 1 or"),

  requests('a shadow limit that is enforced', "shadow = mark == 'shadow'", "shadow = mark ~= 'shadow'"),
  requests('strict ignored', "strict = mark == 'strict'", "strict = mark == ''"),
  requests('a peek that charges', "plan.mode ~= 'peek'", "plan.mode ~= 'consume'"),
  requests('ticks of another length', 'attempt.params.perMs == 1000, ', 'attempt.params.perMs == 1, '),
  requests('keys of another transaction', 'commit(evaluate(first))', 'commit(evaluate(0))'),
  failures(
    'a failure without the name of its limit',
    'if attempt == current then return i',
    'if attempt == current then return 0',
  ),
  lockedAndNew('a locked key that is new again after its wait', 'if not persist then state', 'if true then state'),
  requests('milliseconds rounded up', 'floor(now / 1000)', 'ceil(now / 1000)'),

  decide('a limit that is not locked stepped as locked', 'attempt.lock <= now then', 'attempt.lock > now then'),
  locks('`<` for `≤` where a lock ends', 'attempt.lock <= now then', 'attempt.lock < now then'),
  decide(
    'a shadow limit that denies',
    'if not (attempt.allowed or attempt.shadow) then',
    'if not attempt.allowed then',
  ),
  decide('a denial that does not lock', 'if attempt.block > 0 then keepDenial', 'if attempt.block < 0 then lock'),
  decide(
    '`and` for `or` in what strict charges',
    'allowed and (admitted or attempt.strict)',
    'allowed and (admitted and attempt.strict)',
  ),
  decide(
    'a denial that writes nothing',
    'or not allowed and attempt.persist',
    'or not allowed and not attempt.persist',
  ),
  decide('an expiry for the shorter of two limits', 'max(lasting, reset /', 'min(lasting, reset /'),
  locking('a refund from what a clock ahead has charged on Redis', ' and not attempt.isCarriedOver and', ' and'),
  locking(
    'a lock-out that keeps the begin of an earlier one',
    'if ending == 0 and attempt.lock == 0',
    'if attempt.lock == ending',
  ),
  decide('a cost of 0 that writes', 'if cost > 0 and (allowed and', 'if cost >= 0 and (allowed and'),
  decide('the tick of a step in the past not reported', 'at ~= tick or charged', 'at ~= tick and charged'),
  state('limits that are not charged written', 'if isPartial then keepOthers', 'if not isPartial then keepOthers'),
  decide(
    'a charge reported that was not made',
    'if allowed and not admitted and cost > 0',
    'if allowed and admitted and cost > 0',
  ),

  adjust('a lock in the past', 'now + length, true', 'now - length, true'),
  adjust('`+` for `−` in how long a lock lasts', 'attempt.lock - now\nend', 'attempt.lock + now\nend'),
  adjust(
    'a cost of 0 locked out',
    'attempt.allowed, attempt.persist = attempt.cost == 0,',
    'attempt.allowed, attempt.persist = attempt.cost < 0,',
  ),
  changes('the tick of a charge not rescaled', 'rescale(chargedAt, attempt.params, params)', 'chargedAt'),
  adjust('a debt refused', 'if units < 0 and not isCertain', 'if units > 0 and not isCertain'),
  changes('a refund of a charge before a change', 'or 0) > attempt.changedAt', 'or 0) > 0'),
  adjust('a refund of expired state', '> 0 then return kind', '>= 0 then return kind'),

  lockedAndNew(
    'a reservation kept after a change',
    "plan.mode == 'release' and micros",
    "plan.mode == 'release' and 0",
  ),
  reset('a refund of a charge before a reset', 'change = ending, changedAt = now', 'change = ending, changedAt = 0'),
  reset('a note of a reset kept for too short a time', 'max(record.change, now + lifeOf(group, record, 0))', 'now'),
  reset(
    'a state that cannot be read is not deleted',
    'if not isRead then return deleted end',
    'if not isRead then error(isHeld) end',
  ),

  reply('fractions cut off', 'value % 1 ~= 0 then value = format', 'value % 1 == 0 then value = format'),
  checks(
    'a result that is not a number accepted',
    'attempt.remaining > -huge and attempt.reset < huge and',
    'attempt.remaining > -huge and',
  ),
  reply('a charge without its own tick', 'addReply(isCharged and attempt.at or 0)', 'addReply(0)'),

  records('compatible algorithms not converted', 'from.family == kind.family then', 'from.family ~= kind.family then'),
  alternating(
    'what a smaller capacity cuts off forgotten',
    'attempt.cut = state[attempt.kind.cells + 1] or 0',
    'attempt.cut = 0',
  ),
  alternating('what was cut off counted for ever', 'record.change > now and record.cut', 'record.cut'),
  alternating('a charge that does not prolong what was cut off', '(after - before) * 1000', '0'),
  alternating(
    'what was cut off added to no state',
    'if attempt.cut > 0 then\n    local tick',
    'if attempt.cut < 0 then\n    local tick',
  ),
  records('a state of another algorithm read', 'if from == kind or', 'if from ~= kind or'),
  records('a charge not written', 'attempt.isCharged and group.next or group.cells', 'group.cells'),
  records(
    'another configuration taken for the same',
    'record.signature == attempt.signature and record.cells',
    'record.signature and record.cells',
  ),
  records('a lock not kept', 'attempt.lock > now - slack * 1000000 and', 'attempt.lock < now - slack * 1000000 and'),
  state(
    'an expiry set each time',
    'latest + lasting > kept then kept, needed = keepFor(lasting) end\n  next',
    'latest + lasting < kept then kept, needed = keepFor(lasting) end\n  next',
  ),
  state('an expiry made shorter', "call('PTTL', key) < needed", "call('PTTL', key) > needed"),
  records('other limits of the key lost', 'if not own[record.name] then add', 'if own[record.name] then add'),
  names('entries of a former algorithm kept', "'^log:([^%z]*)'", "'^log:([^%z]*)$'"),
  manyNames('names that have expired kept', 'lifeOf(group, record, ago) > 0', 'lifeOf(group, record, ago) >= 0'),
  manyNames('locks of names that have expired dropped', 'record.lock > now - ago or', ''),
  manyNames('any number of names', 'if #group.records >= MOST_NAMES then error', 'if false then error'),
  manyNames('a key with many names full for good', '  dropExpired(group)\n  if #', '  if #'),

  state('states of changed limits taken for the same', 'if hash ~= group.hash then', 'if not hash then'),
  state('cells of a limit that is not charged lost', 'next[k] = cells[k]', 'next[k] = next[k]'),
  logState(
    'a log of another limit read as its own',
    'record.signature == attempt.signature then',
    'record.signature then',
  ),
  entries('the entries of a block that was left counted', 'scan(text, entries.skip + 1,', 'scan(text, 1,'),
  entries('a block that reaches the cost passed', 'sum + total >= cost', 'sum + total > cost'),
  entries('a refund looked for in the block behind', 'if last < time then break', 'if last <= time then break'),
  entries('a block left one too late', 'if each == number then break', 'if each > number then break'),
  entries('a block that was emptied kept', 'if from == start then leaveNewest', 'if from < start then leaveNewest'),
  entries('small blocks never joined', 'if size + moreSize > BLOCK', 'if size + moreSize > 0'),
  entries('the cost of a refund kept in the index', 'sum - cost, #text) or', 'sum, #text) or'),
  entries('an entry cut one byte too early', 'sub(text, at + ENTRY)\nend', 'sub(text, at + ENTRY - 1)\nend'),
  entries('costs of one tick not added', "pack('<d', newestCost + cost)", "pack('<d', cost)"),
]
