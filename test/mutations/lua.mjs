import { inFile } from './mutation.mjs'

const twins = (name) => ({ files: ['test/algorithms/lua.test.ts'], name })
const equality = (name) => ({ files: ['test/redis/equality.test.ts'], name })
const kept = { files: ['test/redis/entries.test.ts', 'test/redis/equality.test.ts'], name: 'entries|slidingWindowLog' }

const prelude = inFile('src/algorithm.ts', { files: ['test/algorithms/prelude.test.ts'] }, 'Lua')
const linear = inFile('src/algorithms/linear.ts', twins('gcra|leakyBucket'), 'Lua')
const interval = inFile('src/algorithms/interval-refill.ts', twins('tokenBucket'), 'Lua')
const fixed = inFile('src/algorithms/fixed-window.ts', twins('fixedWindow'), 'Lua')
const log = inFile('src/algorithms/sliding-window-log.ts', twins('slidingWindow(Log|Buckets)'), 'Lua')
const counter = inFile('src/algorithms/sliding-window-counter.ts', twins('slidingWindowCounter'), 'Lua')
const hybrid = inFile('src/algorithms/quota-linear.ts', twins('quotaLinear'), 'Lua')
const measured = inFile('src/algorithms/exponential.ts', twins('exponential'), 'Lua')

const script = inFile('src/stores/redis-script.ts', equality('gcra'), 'Lua')
const frame = inFile('src/stores/redis-lua-frame.ts', equality('gcra|fixedWindow'), 'Lua')
const state = inFile('src/stores/redis-lua-state.ts', kept, 'Lua')
const entries = inFile('src/stores/redis-lua-entries.ts', kept, 'Lua')
const trial = inFile(
  'src/stores/redis-lua-trial.ts',
  { files: ['test/redis/adjust.test.ts', 'test/redis/equality.test.ts'], name: 'settled|gcra|fixedWindow' },
  'Lua',
)

/** Slips of the hand in Lua alone: TypeScript and Lua no longer say the same. */
export const lua = [
  prelude(
    'a coarser tick rounded up',
    'return math.floor(ticks / (from.perMs / to.perMs))',
    'return math.ceil(ticks / (from.perMs / to.perMs))',
  ),
  prelude('another largest number', 'local LARGEST = 4503599627370496', 'local LARGEST = 4503599627370495'),
  linear(
    '`<` for `≤` where a request just fits',
    'local allowed = n == 0 or d1 <= p.full',
    'local allowed = n == 0 or d1 < p.full',
  ),
  linear(
    'a wait rounded down',
    'local retry = allowed and 0 or math.ceil(',
    'local retry = allowed and 0 or math.floor(',
  ),
  linear('`−` for `+` in a refund', 'math.max(0, d0 + units * p.unit)', 'math.max(0, d0 - units * p.unit)'),
  interval('a reset rounded down', 'start + (math.ceil(kept / p.quota)', 'start + (math.floor(kept / p.quota)'),
  interval(
    '`>` for `≥` where a bucket is full',
    'k >= full and 0 or u - k * p.quota\n  local start = (u0 == 0 or born) and t or s[2] + k * p.window\n\n  local allowed',
    'k > full and 0 or u - k * p.quota\n  local start = (u0 == 0 or born) and t or s[2] + k * p.window\n\n  local allowed',
  ),
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
  counter('the older window rounded up', 'local weighted = math.floor(', 'local weighted = math.ceil('),
  counter(
    'the window before the wrong one',
    'w == s[1] + 1 and s[2] or 0\n  local e',
    'w == s[1] - 1 and s[2] or 0\n  local e',
  ),
  hybrid('`+` for `−` in the penalty', 'local kept = last and p.unit - left', 'local kept = last and p.unit + left'),
  hybrid(
    'the largest penalty not the least',
    'math.max(p.quota - used, 1 - p.quota)',
    'math.min(p.quota - used, 1 - p.quota)',
  ),
  measured('a life rounded up', 'and 0 or math.floor(p.window * ln', 'and 0 or math.ceil(p.window * ln'),
  measured('the smaller of two rates', 'fresh and n or math.max(n,', 'fresh and n or math.min(n,'),
  measured('a logarithm of the wrong half', 'while y > ${SQRT2} do', 'while y > ${LN2} do'),

  script('a new key seen in the future', "=== -Infinity ? '-huge'", "=== -Infinity ? 'huge'"),
  frame(
    'a shadow limit that vetoes',
    'not trial.allowed and not trial.policy.shadow',
    'not trial.allowed and trial.policy.shadow',
  ),
  frame('fractions cut off', 'value % 1 ~= 0', 'value % 1 == 0'),
  frame('a peek that charges', "mode ~= 'peek'", "mode ~= 'take'"),
  state('another kind taken for the same', 'if oldKind ~= kind then return end', 'if oldKind == kind then return end'),
  state('a lock not kept', 'trial.lock == 0 and UNLOCKED', 'trial.lock ~= 0 and UNLOCKED'),
  state(
    'entries of a former algorithm left behind',
    'elseif trial.old and not trial.copied',
    'elseif trial.old and trial.copied',
  ),
  entries('`+ 16` for `+ 17` after an entry', 'sub(chunk, at + 17)', 'sub(chunk, at + 16)'),
  entries('a time read for a cost', '% CHUNK * 16 + 9', '% CHUNK * 16 + 1'),
  entries('costs of one tick not added up', 'E.cost(tail - 1) + cost', 'cost'),
  entries(
    'a chunk that still counts dropped',
    'floor(head / CHUNK) - 1)\n    setChunks',
    'floor(head / CHUNK))\n    setChunks',
  ),
  trial('a lock in the past', 'now + policy.block, true', 'now - policy.block, true'),
  trial(
    '`and` for `or` in what strict charges',
    'return admitted or trial.policy.strict',
    'return admitted and trial.policy.strict',
  ),
  trial('`+` for `−` in how long a lock holds', 'trial.told = trial.lock - now', 'trial.told = trial.lock + now'),
  trial('a debt refused', 'elseif trial.units < 0 then return end', 'elseif trial.units > 0 then return end'),
  trial(
    'given back to what is fresh',
    'return trial.out.reset > 0 and p or nil',
    'return trial.out.reset >= 0 and p or nil',
  ),
]
