import { inFile } from './mutation.mjs'

const twins = (name) => ({ files: ['test/algorithms/lua.test.ts'], name })
const equality = (name) => ({ files: ['test/stores/redis/equality.test.ts'], name })
const kept = {
  files: [
    'test/stores/redis/entries.test.ts',
    'test/stores/redis/initial.test.ts',
    'test/stores/redis/equality.test.ts',
  ],
  name: 'entries|slidingWindowLog|keeps what was used',
}

const prelude = inFile('src/algorithms/arithmetic.ts', { files: ['test/algorithms/prelude.test.ts'] }, 'Lua')
const linear = inFile('src/algorithms/gcra.ts', twins('gcra|leakyBucket'), 'Lua')
const interval = inFile('src/algorithms/token-bucket-interval.ts', twins('tokenBucket'), 'Lua')
const partFullBucket = inFile('src/algorithms/token-bucket-initial.ts', twins('tokenBucket'), 'Lua')
const fixed = inFile('src/algorithms/fixed-window.ts', twins('fixedWindow'), 'Lua')
const log = inFile('src/algorithms/sliding-window-log.ts', twins('slidingWindow(Log|Buckets)'), 'Lua')
const counter = inFile('src/algorithms/sliding-window-counter.ts', twins('slidingWindowCounter'), 'Lua')
const hybrid = inFile('src/algorithms/quota-linear.ts', twins('quotaLinear'), 'Lua')
const measured = inFile('src/algorithms/exponential.ts', twins('exponential'), 'Lua')

const library = inFile('src/stores/redis/library.ts', equality('gcra'), 'Lua')
const requests = inFile(
  'src/stores/redis/lua/requests.ts',
  {
    files: [
      'test/stores/redis/equality.test.ts',
      'test/stores/redis/own-algorithm.test.ts',
      'test/stores/redis/functions.test.ts',
    ],
    name: 'gcra|fails alone|a full server',
  },
  'Lua',
)
const decide = inFile(
  'src/stores/redis/lua/decide.ts',
  {
    files: [
      'test/stores/redis/plain.test.ts',
      'test/stores/redis/expiry.test.ts',
      'test/stores/redis/own-algorithm.test.ts',
      'test/stores/redis/equality.test.ts',
    ],
    name: 'shortest way|longest of several|leaves NaN.* fails alone|gcra|fixedWindow',
  },
  'Lua',
)
const records = inFile('src/stores/redis/lua/records.ts', kept, 'Lua')
const state = inFile(
  'src/stores/redis/lua/state.ts',
  { files: ['test/stores/redis/plain.test.ts', ...kept.files], name: `shortest way|${kept.name}|gcra` },
  'Lua',
)
const entries = inFile('src/stores/redis/lua/entries.ts', kept, 'Lua')
const adjust = inFile(
  'src/stores/redis/lua/adjust.ts',
  {
    files: ['test/stores/redis/adjust.test.ts', 'test/stores/redis/equality.test.ts'],
    name: 'settled|gcra|fixedWindow',
  },
  'Lua',
)
const reply = inFile(
  'src/stores/redis/lua/reply.ts',
  {
    files: ['test/stores/redis/plain.test.ts', 'test/stores/redis/equality.test.ts'],
    name: 'shortest way|exponential',
  },
  'Lua',
)

/** Slips of the hand in Lua alone: TypeScript and Lua no longer say the same. */
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
  linear('`−` for `+` in a refund', 'min(max(0, debt + change)', 'min(max(0, debt - change)'),
  interval('a reset rounded down', 'local reset = start + ceil(', 'local reset = start + floor('),
  interval('`>` for `≥` where a bucket is full', 'if refills >= ceil(', 'if refills > ceil('),
  partFullBucket(
    '`≤` for `<` where a key is new',
    'if now < renewal then return renewal',
    'if now <= renewal then return renewal',
  ),
  partFullBucket(
    'a window never waited out before a key is new',
    'max(renewal, now + reset + params.idle)',
    'max(renewal, now + reset)',
  ),
  partFullBucket('a key new again for what is given back', '(units > 0 or not isNew)', '(units > 0 or isNew)'),
  fixed(
    '`≤` for `<` at the end of a window',
    'used > 0 and now < start + params.window',
    'used > 0 and now <= start + params.window',
  ),
  fixed(
    'a charge of the first tick not given back',
    'used > 0 and chargedAt >= start)',
    'used > 0 and chargedAt > start)',
  ),
  log(
    '`≥` for `>` where a request costs the whole quota',
    'not allowed and cost > quota',
    'not allowed and cost >= quota',
  ),
  log('nothing dropped when nothing is left', 'kept == 0 and count or drop', 'kept ~= 0 and count or drop'),
  counter('the older window rounded up', 'local weighted = floor(', 'local weighted = ceil('),
  counter('the window before the wrong one', 'latest == number + 1 and', 'latest == number - 1 and'),
  hybrid('`+` for `−` in the penalty', 'local kept = isLast and unit - left', 'local kept = isLast and unit + left'),
  hybrid(
    'the largest penalty not the least',
    'local left = max(params.quota - used, 1 - params.quota)',
    'local left = min(params.quota - used, 1 - params.quota)',
  ),
  measured('a life rounded up', 'and 0 or floor(p.window * ln', 'and 0 or ceil(p.window * ln'),
  measured('the smaller of two rates', 'isFresh and cost or max(cost,', 'isFresh and cost or min(cost,'),
  measured('a logarithm of the wrong half', 'while y > ${SQRT2} do', 'while y > ${LN2} do'),

  library('a new key seen in the future', "=== -Infinity ? '-huge'", "=== -Infinity ? 'huge'"),
  requests('a peek that charges', "plan.mode ~= 'peek'", "plan.mode ~= 'take'"),
  requests('ticks taken for others', 'attempt.params.perMs == 1000', 'attempt.params.perMs == 1'),
  requests('a failure blamed on nobody', 'if current then words', 'if not current then words'),
  requests(
    'a reply that keeps a part of what failed',
    'current, replied = false, began',
    'current, began = false, replied',
  ),
  decide('a shadow limit that vetoes', 'attempt.allowed or attempt.shadow)', 'attempt.allowed and attempt.shadow)'),
  decide('a denial that does not lock', 'if attempt.block > 0 then', 'if attempt.block < 0 then'),
  decide(
    'a lock that does not hold',
    'if isUsual or attempt.lock <= now then',
    'if isUsual or attempt.lock > now then',
  ),
  decide('a second cell of no number kept', 'next[offset + count] <= huge', 'n1 <= huge'),
  decide(
    '`and` for `or` in what strict charges',
    'allowed and (admitted or attempt.strict)',
    'allowed and (admitted and attempt.strict)',
  ),
  decide('a denial not written where it has to be', 'not allowed and attempt.persist', 'allowed and attempt.persist'),
  decide('an expiry for the shorter of two limits', 'if lasts > lasting', 'if lasts < lasting'),
  decide('a limit that is not charged written as if it were', 'if isPartial then', 'if not isPartial then'),
  decide('a time of its own not told', 'at ~= tick or charged', 'at ~= tick and charged'),
  records('another kind taken for the same', 'if from == kind or', 'if from ~= kind or'),
  records('kin not known as such', 'from.family == kind.family', 'from.family ~= kind.family'),
  records('a lock not kept', 'attempt.lock > now - slack * 1000000 and', 'attempt.lock < now - slack * 1000000 and'),
  records(
    'entries of a former algorithm left behind',
    'record.isLog and isFixed then',
    'record.isLog and not isFixed then',
  ),
  records('a charge not written', 'attempt.isCharged and group.next or group.read', 'group.read'),
  records('other limits of the key forgotten', 'if not own[record.name]', 'if own[record.name]'),
  state(
    'limits that have changed taken for the same',
    'find(value, group.hash, 1, true) ~= 1',
    'find(value, group.hash, 1, true) == 0',
  ),
  state('an expiry set each time', 'second + lasting + slack <= kept', 'second + lasting + slack > kept'),
  state('an expiry made shorter', "if call('PTTL', key) <", "if call('PTTL', key) >"),
  state('cells of a limit that is not charged lost', 'next[k] = cells[k]', 'next[k] = next[k]'),
  state(
    'a log of another limit read as this one',
    'record.signature == attempt.signature then',
    'record.signature then',
  ),
  entries('`+ 15` for `+ 16` after an entry', 'sub(text, at + 16)', 'sub(text, at + 15)'),
  entries(
    'a time read for a cost',
    'entries.knownTime, entries.knownCost = e',
    'entries.knownCost, entries.knownTime = e',
  ),
  entries('costs of one tick not added up', "pack('<d', newestCost + cost)", "pack('<d', cost)"),
  entries('a chunk that still counts dropped', 'min(number, newest - 1)', 'min(number + 1, newest - 1)'),
  entries('a full chunk written too late', 'tail - head > CHUNK', 'tail - head > 2 * CHUNK'),
  entries('a first entry that is gone', 'head < tail and head or -1', 'head > tail and head or -1'),
  adjust('a lock in the past', 'now + attempt.block, true', 'now - attempt.block, true'),
  adjust('`+` for `−` in how long a lock holds', 'attempt.lock - now', 'attempt.lock + now'),
  adjust('a charge taken for one in other ticks', 'rescale(chargedAt, attempt.params, params)', 'chargedAt'),
  adjust('a debt refused', 'if units < 0 then return end', 'if units > 0 then return end'),
  adjust('given back to what is fresh', 'if reset > 0 then return kind', 'if reset >= 0 then return kind'),
  reply(
    'fractions cut off',
    "type(value) == 'number' and value % 1 ~= 0",
    "type(value) == 'number' and value % 1 == 0",
  ),
]
