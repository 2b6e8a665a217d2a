import { inFile } from './mutation.mjs'

const closedTests = { files: ['test/engine/closed.test.ts'] }
const closed = inFile('src/algorithms/closed.ts', closedTests)
const closedInLua = inFile('src/algorithms/closed.lua', closedTests, 'Lua')
const compiled = inFile('src/engine/compiled-limit.ts', closedTests)
const local = inFile('src/stores/guard/local.ts', closedTests)
const valuesInStandard = inFile('src/http/headers/standard.ts', closedTests)
const used = inFile('src/stores/store.ts', { files: ['test/limiter/decision.test.ts'] })
const userFunctions = { files: ['test/limiter/user-functions.test.ts', 'test/limiter/on-decision.test.ts'] }
const promises = inFile('src/util/maybe-promise.ts', userFunctions)
const errors = inFile('src/util/errors.ts', userFunctions)
const warnings = inFile('src/util/warn.ts', userFunctions)
const shadow = inFile('src/rules/shadow.ts', userFunctions)
const events = inFile('src/rules/rules.ts', userFunctions)
const memory = inFile('src/stores/memory/index.ts', userFunctions)
const timers = inFile('src/util/clock.ts', userFunctions)
const fakeTimers = inFile('src/util/clock.ts', { files: ['test/util/clock.test.ts'] })
const promisesIn = inFile('src/util/validate.ts', userFunctions)
const observers = inFile('src/limiter/default-limiter.ts', { files: ['test/limiter/on-decision.test.ts'] })

const clock = inFile('src/testing/virtual-clock.ts', { files: ['test/testing/virtual-clock.test.ts'] })

const returned = inFile('src/limiter/charge-builder.ts', { files: ['test/limiter/returned-values.test.ts'] })
const alternation = inFile('src/util/warnings/alternation.ts', { files: ['test/limiter/mistakes.test.ts'] })

const calendarTests = { files: ['test/util/calendar.test.ts'] }
const calendar = inFile('src/util/calendar.ts', calendarTests)
const windowTests = { files: ['test/engine/calendar.test.ts'] }
const calendarWindow = inFile('src/algorithms/fixed-window.ts', windowTests)
const calendarWindowInLua = inFile('src/algorithms/fixed-window.lua', windowTests, 'Lua')
const store = inFile('src/stores/store.ts', windowTests)
const settlement = inFile('src/limiter/ending.ts', windowTests)
const stackOptions = inFile('src/limiter/stack.ts', { files: ['test/limiter/stack-options.test.ts'] })
const share = inFile('src/stores/guard/share.ts', windowTests)

const capped = { files: ['test/limiter/cap-cost.test.ts'] }
const thresholdTests = { files: ['test/limiter/thresholds.test.ts'] }
const receiptTests = { files: ['test/limiter/receipt.test.ts'] }
const thresholds = inFile('src/limiter/thresholds.ts', thresholdTests)
const receipts = inFile('src/limiter/receipt.ts', receiptTests)
const onceTests = { files: ['test/limiter/receipts-once.test.ts'] }
const notes = inFile('src/stores/note.ts', onceTests)
const forgotten = inFile('src/stores/note.ts', { files: ['test/stores/notes.test.ts'] })
const luaNotes = inFile('src/stores/redis/lua/notes.lua', onceTests)

/** Mistakes in the options of limits and in what a decision reports. */
export const limits = [
  stackOptions('one name for all limiters of a stack', '`${name}-${i + 1}`', '`${name}-1`'),
  stackOptions(
    'a store in a limiter of a stack',
    'for (const option of STORE_OPTIONS)',
    'for (const option of STORE_OPTIONS.slice(1))',
  ),
  stackOptions('the first limiter is blamed for an option of the stack', 'validateCommon(known)', ''),
  inFile('src/engine/limit.ts', { files: ['test/algorithms/options.test.ts'] })(
    'an option that is null',
    'if (json[name] === null) refuse(',
    'if (false) refuse(',
  ),
  inFile('src/util/validate.ts', { files: ['test/util/own-options.test.ts'] })(
    'options that are inherited',
    'return Object.assign(Object.create(null) as Options, given)',
    'return given',
  ),
  inFile('src/engine/limit.ts', { files: ['test/util/own-options.test.ts'] })(
    'a limit that inherits options',
    'Object.assign(Object.create(absentOptions(algorithm)) as Limit, data)',
    'data',
  ),
  clock('a duration that is not read', "typeof given === 'string' ? parseDuration(given) : given", 'given'),
  clock('an advance by no time', 'Number.isFinite(ms) ? (ms as number)', 'Number.isNaN(0) ? 0 : true ? (ms as number)'),
  clock('a start at no time', "time('start', start)", 'start'),
  clock('a clock that is set to no time', "moveTo(time('set', ms))", 'moveTo(ms)'),
  returned(
    'exempts an input whose limits are undefined',
    'if (!Array.isArray(answer)) addDistinct',
    'if (answer === undefined) continue\n      if (!Array.isArray(answer)) addDistinct',
  ),
  returned(
    'exempts an input whose list of limits has undefined',
    'of answer as readonly Limit[]) addDistinct',
    'of answer as readonly Limit[]) if (each !== undefined) addDistinct',
  ),
  alternation(
    'a change of a plan taken for a mistake',
    'if (watched.earlier.includes(signature)) countReturn',
    'countReturn',
  ),
  alternation('changes between windows taken for a mistake', 'now - watched.since > window', 'now < watched.since'),
  alternation(
    'keys that are watched without a bound',
    'if (this.#keys.size === MOST_KEYS)',
    'if (this.#keys.size < 0)',
  ),
  closed('a quota of 0 that denies a cost of 0', 'const allowed = cost === 0', 'const allowed = cost < 0'),
  closedInLua('a quota of 0 with a retry time in Lua', 'or huge', 'or 1'),
  compiled('a capacity of 0 not looked for', ' || capacityIn(algorithm, parameters) === 0', ''),
  local('a retry of a limit that admits nothing', ' && charge.policy.compiled.capacity > 0', ''),
  valuesInStandard(
    'a quota of 0 that returns at once',
    'if (values.quota === 0) return values.window * 1000\n  if (!status',
    'if (!status',
  ),
  used('used below 0', 'used > 0 ? used : 0', 'used'),
  promises(
    'a throw that leaves an earlier promise without a handler',
    'if (!isPending) throw error',
    'if (isPending || !isPending) throw error',
  ),
  promises('a thenable that is taken for a promise', 'Promise.resolve(value).then(next)', 'value.then(next)'),
  promises('an observer that throws', '  } catch (error) {\n    failed(error)\n  }', '  } finally {\n  }'),
  promises('any thenable taken for a promise', 'Promise.resolve(result).catch(failed)', 'result.catch(failed)'),
  promises('a refused promise without a handler', 'Promise.resolve(refused).catch(() => undefined)', ''),
  errors(
    'a warning that throws for an object without a text',
    '  try {\n    return String(thrown)\n',
    '  if (thrown !== shown) return String(thrown)\n  try {\n    return String(thrown)\n',
  ),
  warnings('a warning for each error of an observer', 'once((error', '((error'),
  shadow(
    'an error of onDenied in shadow that is not reported',
    'onDenied && observer(onDenied,',
    'onDenied && (() => undefined)(onDenied,',
  ),
  events(
    'listeners that are called by emit',
    'for (const listener of rules.rawListeners(event)) {',
    'for (const listener of rules.rawListeners(event).slice(0, 1)) {',
  ),
  memory(
    'an error of onFull that reaches a request',
    'checkedMaxKeys(maxKeys), observe,',
    'checkedMaxKeys(maxKeys), onFull,',
  ),
  timers(
    'a cancelled timer of a clock that throws',
    "return observer(given as () => unknown, 'A timer of `clock.after` failed.')",
    'return given as () => void',
  ),
  fakeTimers(
    'a time origin that is always added',
    "typeof timeOrigin === 'number' ? timeOrigin + performance.now() : Date.now()",
    'timeOrigin + performance.now()',
  ),
  fakeTimers('time stands still while a machine is suspended', 'wall > now + TOLERANCE &&', 'false &&'),
  fakeTimers('a clock that follows small differences', 'wall > now + TOLERANCE &&', 'wall > now &&'),
  fakeTimers('a time of no number', ' && Number.isSafeInteger(wall)', ''),
  fakeTimers('a clock that is compared once', 'compareAt = time + TOLERANCE', 'compareAt = Infinity'),
  promisesIn(
    'only the first refused promise gets a handler',
    'if (disown(values[each as never])) name ??= each',
    'if (name === undefined && disown(values[each as never])) name = each',
  ),
  observers('a limiter called twice in a stack', '[...new Set(builders)]', 'builders'),
  calendar('the later of two midnights', '[Math.max(before, after), Math.min', '[Math.min(before, after), Math.max'),
  calendar(
    'a day without midnight that starts a second late',
    'return midnight - before',
    'return midnight - before + 1000',
  ),
  calendar('weeks that start on Sunday', 'date.getUTCDay() + 6', 'date.getUTCDay() + 7'),
  calendar('a skipped day taken for a window', 'if (starts.at(-1) !== start) starts', 'starts'),
  calendar('zones remembered without a bound', 'map.size >= MOST_REMEMBERED', 'map.size < 0'),
  settlement('windows of an old month for a settlement', '    renewParameters(charge.policy)\n', ''),
  calendarWindow(
    'windows that are not derived anew',
    'first + before + current) * 1000',
    'first + before + current) * 1e6',
  ),
  calendarWindowInLua(
    'the window after the current one not looked for in Lua',
    'ending, ending + params.after',
    'ending, ending + params.current',
  ),
  store('windows of the day before', 'time >= from && time < until', 'time >= from'),
  share(
    'a calendar with a longer window',
    'for (const name of CALENDAR) delete scaled[name]',
    'for (const name of CALENDAR) void name',
  ),
  inFile('src/stores/store.ts', capped)(
    'a cost that is never capped',
    'cost > mostCost ? mostCost',
    'cost < 0 ? mostCost',
  ),
  inFile('src/engine/compiled-limit.ts', capped)(
    'a cost that is capped to nothing',
    'data.capCost === true && this.capacity > 0',
    'data.capCost === true',
  ),
  inFile('src/engine/compiled-limit.ts', capped)('a cap without the option', 'data.capCost === true &&', ''),
  inFile('src/stores/guard/local.ts', capped)(
    'a capped charge that a share settles to a part',
    'copy.cost < charge.cost ?',
    'copy.cost < 0 ?',
  ),
  inFile('src/engine/limit.ts', thresholdTests)('a part of 0', 'part > 0 && part <= 1', 'part >= 0 && part <= 1'),
  inFile('src/engine/limit.ts', thresholdTests)(
    'parts without a bound',
    'given.length > MOST_THRESHOLDS',
    'given.length > 99',
  ),
  inFile('src/engine/limit.ts', thresholdTests)('parts as they were given', '.toSorted((a, b) => a - b)', ''),
  inFile('src/rules/shapes.ts', thresholdTests)('a part above 1 in a document', 'value > 0 && value <= 1', 'value > 0'),
  thresholds('a crossing of each decision above a part', 'before / capacity < threshold', 'before / capacity < 2'),
  thresholds('a part that must be exceeded', 'used / capacity >= threshold', 'used / capacity > threshold'),
  thresholds('repeated events in one window', '-Infinity) > now) return false', '-Infinity) > now) return true'),
  thresholds('crossings without a bound', 'until.size >= MOST_CROSSINGS', 'until.size < 0'),
  thresholds('the rest of a window taken for a length', 'Math.min(limit.window, resetAfter)', 'limit.window'),
  thresholds(
    'a denial that is never a crossing',
    'else if (status.used >= status.policy',
    'else if (status.used < status.policy',
  ),
  thresholds('events without the store', 'if (degraded !== undefined) return\n  for', 'for'),
  thresholds('a settlement that fails with its look', 'peeked.then(noticed, () => undefined)', 'peeked.then(noticed)'),
  thresholds(
    'stores that share their crossings',
    'madeOnce(crossings, policy.store.place',
    'madeOnce(crossings, crossings',
  ),
  inFile('src/limiter/ending.ts', { files: ['test/limiter/receipt.test.ts'] })(
    'a failed settlement with a receipt that is made no more',
    'use !== undefined && settles',
    'use === undefined && settles',
  ),
  inFile('src/limiter/ending.ts', thresholdTests)(
    'settlements that cross nothing',
    'return noticeAdded(charges, units)',
    'return undefined',
  ),
  inFile('src/limiter/default-limiter.ts', thresholdTests)(
    'a peek that crosses',
    "mode === 'consume' && thresholds",
    'thresholds',
  ),
  receipts('a receipt that is settled twice', 'known.decisions.get(id)\n  if', 'known.decisions.get(text)\n  if'),
  receipts(
    'a changed receipt',
    'isEqualText(given, digestOf(body, secret))',
    '(secret === undefined || isEqualText(given, digestOf(body, secret)))',
  ),
  receipts(
    'a signature of nobody',
    'isEqualText(given, digestOf(body, secret))',
    '(secret !== undefined || isEqualText(given, digestOf(body, secret)))',
  ),
  receipts(
    'a receipt that is not signed',
    'if (isSigned !== secrets.length > 0)',
    'if (isSigned && secrets.length === 0)',
  ),
  inFile('src/limiter/receipt-settings.ts', receiptTests)(
    'a secret that is not set',
    "!Object.hasOwn(options, 'receiptSecret')",
    'receiptSecret === undefined',
  ),
  receipts('a receipt that never ends', 'if (until <= now) throw', 'if (until < 0) throw'),
  receipts(
    'a receipt of any length',
    'if (text.length > LONGEST_RECEIPT)\n    throw invalid(`it has',
    'if (text.length < 0)\n    throw invalid(`it has',
  ),
  receipts(
    'a receipt of another limiter',
    'own === undefined && charges.length > 0',
    'own === undefined && charges.length < 0',
  ),
  receipts('a newer format that is read', 'if (Number(version) !== FORMAT)', 'if (Number(version) > 1e9)'),
  receipts('a denial that is settled elsewhere', '!decision.allowed || decision.degraded', 'decision.degraded'),
  receipts(
    'a local decision that is settled elsewhere',
    '|| decision.degraded !== undefined) return []',
    ') return []',
  ),
  receipts('what was settled in a receipt', '|| !isSettled)', '|| !isSettled || true)'),
  receipts(
    'receipts that are remembered without a bound',
    'known.decisions.size >= MOST_DECISIONS',
    'known.decisions.size < 0',
  ),
  forgotten('a receipt that settles twice after its note went', 'charged <= this.#forgotten', 'false'),
  forgotten('a renewed slot that is released twice', 'Math.max(charged, ...moved)', 'charged'),
  notes('a receipt that settles twice', 'receipt.settles && !note.settled', 'receipt.settles'),
  notes('a receipt that releases twice', 'receipt.releases && !note.released', 'receipt.releases'),
  notes('slots that are not found after a renewal', 'if (place === undefined) return charge', 'return charge'),
  notes('slots that are renewed after their release', 'isRepeated = note.released || now', 'isRepeated = now'),
  notes(
    'a note that ends too early',
    'until: Math.max(note.until, receipt.keep),\n    settled',
    'until: receipt.keep,\n    settled',
  ),
  luaNotes('a receipt that settles twice on Redis', '(isOver or note.settled)', 'isOver'),
  luaNotes('a receipt that releases twice on Redis', '(isOver or note.released)', 'isOver'),
  luaNotes('slots that are not found after a renewal on Redis', 'if moved then', 'if false then'),
  luaNotes('a note on Redis that ends too early', "max(kept, (note['until'] or 0) + 0)", 'kept'),
  receipts('a key of any length', 'isShort(key, LONGEST_KEY)', 'isShort(key, LONGEST_RECEIPT)'),
]
