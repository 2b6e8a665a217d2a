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
const exponentialMath = inFile('src/algorithms/exponential-math.ts', twins('exponential'), 'Lua')

const script = inFile('src/stores/redis/library.ts', equality('gcra'), 'Lua')
const plain = inFile(
  'src/stores/redis/lua/plain.ts',
  {
    files: [
      'test/stores/redis/plain.test.ts',
      'test/stores/redis/expiry.test.ts',
      'test/stores/redis/equality.test.ts',
    ],
    name: 'shortest way|longest of several|gcra|fixedWindow',
  },
  'Lua',
)
const alone = inFile(
  'src/stores/redis/lua/alone.ts',
  {
    files: ['test/stores/redis/plain.test.ts', 'test/stores/redis/equality.test.ts'],
    name: 'shortest way|gcra|exponential',
  },
  'Lua',
)
const expiry = inFile('src/stores/redis/lua/expiry.ts', { files: ['test/stores/redis/plain.test.ts'] }, 'Lua')
const reply = inFile(
  'src/stores/redis/lua/reply.ts',
  {
    files: ['test/stores/redis/plain.test.ts', 'test/stores/redis/equality.test.ts'],
    name: 'shortest way|exponential',
  },
  'Lua',
)
const transaction = inFile('src/stores/redis/lua/transaction.ts', equality('gcra|fixedWindow'), 'Lua')
const state = inFile('src/stores/redis/lua/state.ts', kept, 'Lua')
const entries = inFile('src/stores/redis/lua/entries.ts', kept, 'Lua')
const trial = inFile(
  'src/stores/redis/lua/trial.ts',
  {
    files: ['test/stores/redis/adjust.test.ts', 'test/stores/redis/equality.test.ts'],
    name: 'settled|gcra|fixedWindow',
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
    'local allowed = n == 0 or d1 <= full',
    'local allowed = n == 0 or d1 < full',
  ),
  linear('a wait rounded down', 'local retry = allowed and 0 or ceil(', 'local retry = allowed and 0 or floor('),
  linear('`−` for `+` in a refund', '= min(max(0, d0 + change)', '= min(max(0, d0 - change)'),
  interval('a reset rounded down', 'out.reset = start + ceil(', 'out.reset = start + floor('),
  interval(
    '`>` for `≥` where a bucket is full',
    'k >= full\n  local t = fresh and now or max(now, s[2])\n  local u0 = fresh and 0 or u - k * p.quota\n  local start = fresh and now or s[2] + k * p.window\n\n  local allowed',
    'k > full\n  local t = fresh and now or max(now, s[2])\n  local u0 = fresh and 0 or u - k * p.quota\n  local start = fresh and now or s[2] + k * p.window\n\n  local allowed',
  ),
  partFullBucket(
    '`>` for `≥` where a key is new',
    'local isNew = now >= renewal\n  bucket.step',
    'local isNew = now > renewal\n  bucket.step',
  ),
  partFullBucket(
    'a window never waited out before a key is new',
    'touched and max(renewal, now + out.reset + p.idle)',
    'touched and max(renewal, now + out.reset)',
  ),
  partFullBucket('a key new again for what is given back', '(units > 0 or not isNew)', '(units > 0 or isNew)'),
  fixed(
    '`≤` for `<` at the end of a window',
    'now < s[1] + p.window\n  local t =',
    'now <= s[1] + p.window\n  local t =',
  ),
  fixed('a charge of the first tick not given back', 'used > 0 and before >= start', 'used > 0 and before > start'),
  log(
    '`<` for `≤` where a request costs the whole quota',
    'not allowed and n <= p.quota',
    'not allowed and n < p.quota',
  ),
  log(
    'nothing dropped when nothing is left',
    'sum + change == 0 and count or drop',
    'sum + change ~= 0 and count or drop',
  ),
  counter('the older window rounded up', 'local weighted = floor(', 'local weighted = ceil('),
  counter(
    'the window before the wrong one',
    'w == s[1] + 1 and s[2] or 0\n  local e',
    'w == s[1] - 1 and s[2] or 0\n  local e',
  ),
  hybrid('`+` for `−` in the penalty', 'local kept = last and p.unit - left', 'local kept = last and p.unit + left'),
  hybrid(
    'the largest penalty not the least',
    'tokens = max(p.quota - used, 1 - p.quota)',
    'tokens = min(p.quota - used, 1 - p.quota)',
  ),
  measured('a life rounded up', 'and 0 or floor(p.window * ln', 'and 0 or ceil(p.window * ln'),
  measured('the smaller of two rates', 'fresh and n or max(n,', 'fresh and n or min(n,'),
  exponentialMath('a logarithm of the wrong half', 'while y > ${SQRT2} do', 'while y > ${LN2} do'),

  script('a new key seen in the future', "=== -Infinity ? '-huge'", "=== -Infinity ? 'huge'"),
  plain(
    'a limit that has changed taken for the same',
    'find(value, policy.prefix, 1, true) ~= 1',
    'find(value, policy.prefix, 1, true) == 0',
  ),
  plain('a shadow limit that vetoes', 'if not policy.shadow then', 'if policy.shadow then'),
  plain('a peek that charges', "if mode ~= 'peek' then", "if mode ~= 'take' then"),
  plain('an expiry for the shorter of two limits', 'if lasts > lasting', 'if lasts < lasting'),
  plain('fields of another key dropped', 'asks[i].gone) end', 'asks[1].gone) end'),
  plain('a denial that does not lock', 'policy.block > 0 then return false', 'policy.block < 0 then return false'),
  plain(
    '`and` for `or` in what strict charges',
    'allowed and (admitted or policy.strict)',
    'allowed and (admitted and policy.strict)',
  ),
  transaction(
    'a shadow limit that vetoes after all',
    'not trial.allowed and not trial.policy.shadow',
    'not trial.allowed and trial.policy.shadow',
  ),
  transaction('a lock that a peek leaves', "admitted, mode ~= 'peek'", "admitted, mode ~= 'take'"),
  alone(
    'a limit that has changed taken for the same',
    'find(value, prefix, 1, true) ~= 1',
    'find(value, prefix, 1, true) == 0',
  ),
  alone('a denial not written where it has to be', 'if allowed or out.persist', 'if allowed and out.persist'),
  alone('ticks taken for others', 'p.perMs == 1000 and now', 'p.perMs == 1 and now'),
  expiry('an expiry set each time', 'slack > kept then', 'slack < kept then'),
  expiry('an expiry made shorter', "call('PTTL', ${key}) <", "call('PTTL', ${key}) >"),
  reply('fractions cut off', 'value % 1 ~= 0', 'value % 1 == 0'),
  reply('a time of its own not told', '~= tick or units', '~= tick and units'),
  state('kin not known as such', 'one.kin == other.kin', 'one.kin ~= other.kin'),
  state('another kind taken for the same', 'if not akin(oldKind, kind) then', 'if akin(oldKind, kind) then'),
  state('a lock not kept', "trial.lock <= now - slack * 1000000 and ''", "trial.lock > now - slack * 1000000 and ''"),
  state(
    'entries of a former algorithm left behind',
    'elseif trial.old and not trial.copied',
    'elseif trial.old and trial.copied',
  ),
  entries('`+ 16` for `+ 17` after an entry', 'sub(chunk, at + 17)', 'sub(chunk, at + 16)'),
  entries('a time read for a cost', 'E.readTime, E.readCost = e', 'E.readCost, E.readTime = e'),
  entries('costs of one tick not added up', 'E.cost(newest) + cost', 'cost'),
  entries('a chunk that still counts dropped', 'from, firstChunk(E) - 1)', 'from, firstChunk(E))'),
  entries('the open chunk one too early', 'min(last - 1, E.high)', 'min(last - 2, E.high)'),
  entries('a first entry that is gone', 'if head < E.tail then', 'if head > E.tail then'),
  entries('a first entry as it was before', 'if e == E.head then E.firstTime', 'if e ~= E.head then E.firstTime'),
  trial('a lock in the past', 'now + policy.block, true', 'now - policy.block, true'),
  trial(
    '`and` for `or` in what strict charges',
    'return admitted or trial.policy.strict',
    'return admitted and trial.policy.strict',
  ),
  trial('`+` for `−` in how long a lock holds', 'trial.told = trial.lock - now', 'trial.told = trial.lock + now'),
  trial('a charge taken for one in other ticks', 'rescale(trial.at, policy.p, p)', 'trial.at'),
  trial('a debt refused', 'elseif trial.cost < 0 then return end', 'elseif trial.cost > 0 then return end'),
  trial('given back to what is fresh', 'if trial.out.reset > 0 then', 'if trial.out.reset >= 0 then'),
]
