import { inFile } from './mutation.mjs'

const lostRules = { files: ['test/rules/redis.test.ts'], name: 'restarted empty|each minute' }
const inTests = (file, ...tests) =>
  inFile(`src/rules/${file}`, { files: tests.map((test) => `test/rules/${test}.test.ts`) })

const paths = inTests('paths.ts', 'paths', 'routers')
const dimensions = inTests('dimensions.ts', 'match', 'paths', 'routers')
const networks = inFile('src/http/keys/networks.ts', { files: ['test/rules/match.test.ts'] })
const match = inTests('match.ts', 'match', 'paths', 'otherwise')
const compile = inTests('compile.ts', 'match')
const limitShapes = inFile('src/rules/shapes.ts', {
  files: ['test/algorithms/registry.test.ts', 'test/rules/schema.test.ts'],
})
const algorithms = inFile('src/algorithms/index.ts', { files: ['test/rules/schema.test.ts'] })
const charges = inTests('charges.ts', 'limits', 'rules', 'otherwise')
const limits = inTests('limits.ts', 'limits')
const keys = inTests('keys.ts', 'limits')
const read = inTests('compile.ts', 'check', 'rules', 'otherwise')
const shape = inTests('shape.ts', 'check', 'schema')
const replacement = inTests('rules.ts', 'rules', 'from', 'otherwise')
const shadow = inTests('shadow.ts', 'shadow')
const file = inTests('file.ts', 'file-start', 'file')
const yamlFile = inTests('file.ts', 'text')
const start = inTests('start.ts', 'from')
const yaml = inTests('yaml.ts', 'text')
const json = inTests('text.ts', 'text')
const problems = inTests('document.ts', 'check', 'text', 'file')
const shapes = inTests('shapes.ts', 'check')
const explain = inFile('src/cli/rules/explain.ts', { files: ['test/cli/rules.test.ts'] })
const command = inFile('src/cli/rules/command.ts', { files: ['test/cli/rules.test.ts', 'test/cli/exit-codes.test.ts'] })
const stored = inFile('src/rules/redis/stored.lua', { files: ['test/rules/redis.test.ts'] }, 'Lua')
const doubts = inFile('src/cli/rules/doubts.ts', { files: ['test/cli/rules.test.ts'] })
const recorder = inFile('src/metrics/recorder.ts', { files: ['test/rules/otherwise.test.ts'] })
const compare = inFile('src/cli/rules/diff.ts', { files: ['test/cli/rules.test.ts'] })

export const rules = [
  limitShapes('a window for slots', 'const hasWindow = algorithms.some(', 'const hasWindow = true || algorithms.some('),
  limitShapes('no lease for slots', 'if (windowOption !== undefined) {', 'if (windowOption?.name === "x") {'),
  limitShapes('a duration that may not be 0', 'least === 0 ? either(', 'least === 1 ? either('),
  limitShapes('an option without its least number', 'count: () => whole(least)', 'count: () => whole(1)'),
  algorithms(
    'an algorithm that is not in the list',
    '...Object.values<Algorithm>(others)',
    '...Object.values<Algorithm>(others).slice(1)',
  ),
  paths('an empty segment is no parameter', 'forms.push(startsOf(path, most, false))', 'forms.push(merged)'),
  paths('dots are not resolved', 'before.pop()', 'before.push(start)'),
  paths('an encoded letter is another letter', 'if (code >= 0) {', 'if (code >= 128) {'),
  paths('a backslash is no slash', "each.replaceAll('\\\\', '/')", "each.replaceAll('\\\\', '-')"),
  paths('the first character of a target is its own', 'target.slice(1)', 'target.slice(0)'),
  paths('letter case matters', 'return text.toLowerCase()', 'return text'),
  paths('a URL without a host has one reading', "if (scheme !== '') paths.push(withSlash(behind))", ''),
  paths('a host has no colon before a name', 'paths.push(...pathFromColon(sent))', ''),
  paths('a port is a name', "behind.replace(/:\\d*$/, '')", 'behind'),
  paths('a path keeps the space at its end', 'path.trimEnd()', 'path'),
  paths('a host begins with three slashes', "each.startsWith('//') ?", "each.startsWith('///') ?"),
  paths('readings that differ are several keys', 'keys.size === 1 ? [...keys][0]! : SEVERAL', '[...keys][0]!'),
  paths(
    'a key does not end at a semicolon',
    "form.includes(';') ? form.slice(0, form.indexOf(';'))",
    "form.includes(';') ? form",
  ),
  paths('a path is cut too early', 'starts.slice(0, segments + 1)', 'starts.slice(0, segments)'),
  match('a key is any reading of the path', 'found.length === 0 ? (facts.paths[0]', 'true ? (facts.paths[0]'),
  dimensions(
    'only the path of the router is matched',
    'const readings = facts.paths.flat()',
    'const readings = facts.paths[0] ?? []',
  ),
  dimensions('GET is not HEAD', "[name, 'HEAD'] : [name]", '[name] : [name]'),
  dimensions('a parameter at the end is optional', 'data.length === undefined || data.length === length', 'true'),
  networks('a network has one bit more', 'BigInt(width - prefix)', 'BigInt(width - prefix + 1)'),
  dimensions('one reading of a path is enough for `allow`', 'forms.every((form)', 'forms.some((form)'),
  match('a policy applies at its end', 'now < policy.until', 'now <= policy.until'),
  match(
    'one condition of several is enough',
    'if (!holds(conditions[i]!, facts)) return false',
    'if (holds(conditions[i]!, facts)) return true',
  ),
  match('a policy applies twice', ' && !matched.includes(policy)', ''),
  compile(
    'policies are found by what most of them share',
    'if (most < least)',
    'if (most > least || best === undefined)',
  ),
  match('allow does not matter', 'if (matched.some(isAllowing)) return ALLOWED', ''),
  match('a policy in shadow keeps `otherwise` from a request', '|| matched.some(isEnforced)', '|| matched.length > 0'),
  match('requests that no policy matches are not limited', '[...matched, otherwise]', 'matched'),
  match('requests that a policy allows are counted as unmatched', 'applying !== ALLOWED && ', ''),
  charges(
    'the rules are read again after the attributes',
    'const policies = applyingPolicies(rules, facts',
    'const policies = applyingPolicies(this.#rules.compiled(), facts',
  ),
  inTests('match.ts', 'limits')(
    'an override has no end',
    'override !== undefined && now < override.until',
    'override !== undefined',
  ),
  limits('the name of a limit depends on its quota', 'index === 0 ? policy : `${policy}-${index + 1}`', 'undefined'),
  limits(
    'an override takes no options from its limit',
    '{ ...base, algorithm, ...given, name }',
    '{ algorithm, quota: base.quota, window: base.window, ...given, name }',
  ),
  keys('HEAD is counted apart from GET', "name === 'HEAD' ? 'GET' : name", 'name'),
  read(
    'the document is not copied',
    'frozenCopy(name === undefined ? value : named(name, value)) as PolicyRule',
    '(name === undefined ? value : named(name, value)) as PolicyRule',
  ),
  shape('an unknown name is accepted', 'if (shape === undefined) report(', 'if (shape === null) report('),
  replacement(
    'a document that says the same is a change',
    'const isChanged = !isEqual(before.policies, after.policies) ||',
    'const isChanged = before !== after ||',
  ),
  inFile('src/rules/rules.ts', lostRules)(
    'a problem that stays after the same document',
    'this.#recover()\n    return isChanged',
    'if (isChanged) this.#recover()\n    return isChanged',
  ),
  inFile('src/rules/rules.ts', lostRules)(
    'missing rules that are reported once',
    '< REPORT_EVERY) return',
    '< Infinity) return',
  ),
  inFile('src/rules/redis/source.ts', lostRules)(
    'missing rules after an outage that are not reported',
    "rules push\\``), 'missing')",
    'rules push\\``))',
  ),
  inFile('src/rules/redis/source.ts', lostRules)(
    'a failed read that is repeated late',
    'Math.min(RETRY, interval)',
    'interval',
  ),
  replacement('every failure of the source is an event', '< REPORT_EVERY) return', '< 0) return'),
  shadow('a document in shadow counts with the one in force', "const SHADOW = 'shadow:'", "const SHADOW = ''"),
  file('a half-written file is reported', 'if (!isGood && age >= 0 && age < PATIENCE) return PATIENCE - age', ''),
  yaml(
    'a missing package has no code',
    "throw new SluiceError('MISSING_PACKAGE',",
    "throw new SluiceError('NOT_APPLICABLE',",
  ),
  yamlFile('a missing package is noticed after the start', "await parseText('', format)", ''),
  yaml('a number without quotes is another key', 'String(value) === source) return false', 'true) return false'),
  yaml('the number of an attribute is another text', "new Set(['attributes', 'key'])", "new Set(['key'])"),
  start('a function that returns no iterable', 'if (!isIterable(documents))', 'if (false)'),
  yaml('aliases grow without a bound', 'hasMoreValues(value, MOST_VALUES)', 'false'),
  yaml('a text is read to its end after a hundred errors', 'if (errors > MOST_ERRORS) break', ''),
  yaml('each error has a stack', 'Error.stackTraceLimit = 0', ''),
  yaml('other errors have no stack', 'Error.stackTraceLimit = before', ''),
  yaml('a text is read in one turn', 'if (count % TOKENS_IN_TURN === 0)', 'if (count < 0)'),
  yaml('a text may have any number of words', 'if (++count > MOST_TOKENS)', 'if (++count > 1e9)'),
  yaml('a text may have any number of anchors', '++anchors > MOST_ANCHORS', '++anchors > 1e9'),
  yaml('a name may be given twice', 'else if (names.has(name))', 'else if (false)'),
  json('the items of a list have the line of the list', '++container!.place', 'container!.place'),
  problems('mistakes have no bound', 'if (problems.length >= MOST)', 'if (problems.length < 0)'),
  problems('a message has any length', 'message.length > LONGEST', 'message.length < 0'),
  problems('a mistake does not name its line', "line === undefined ? (file ?? '')", "line !== 0 ? (file ?? '')"),
  file('a mistake does not name its file', 'inFile(path, problems)', 'problems'),
  shape('one object in many places counts once', 'return count > most', 'return false'),
  shapes(
    'a mistake does not say where attributes stand',
    "\n  'For an attribute of the application, write attributes: { … }',",
    '',
  ),
  shapes('a key names an attribute by its name alone', '|attribute:(?!', '|(?:attribute:)?(?!'),
  charges(
    'an attribute that never comes is not warned of',
    'if (++this.#requests < REQUESTS',
    'if (++this.#requests < Infinity',
  ),
  charges('an attribute is warned of again', 'this.#named.has(name) &&', 'false &&'),
  explain('what is left is shown after the request', 'counted.peek(input, { cost: 0 })', 'counted.peek(input)'),
  explain('a limit in shadow denies', '&& !isShadow', ''),
  command('an option of another command is ignored', 'throw misuse(`no --${each} with ${name}`)', 'continue'),
  stored('the last of two writers wins', "if expected ~= '' and expected ~= version then", 'if false then'),
  stored('a document that is replaced is not kept', 'if held[1] then keep(version) end', ''),
  stored('documents are kept for ever', "redis.call('HDEL', key, unpack(fields))", ''),
  stored('texts of any size are kept', 'or bytes > most_bytes', ''),
  inFile('src/rules/redis/stored.ts', { files: ['test/rules/redis.test.ts'] })(
    'a rollback overwrites the push of a colleague',
    '{ version: current.version, ...place,',
    '{ ...place,',
  ),
  inFile('src/rules/redis/stored.ts', { files: ['test/rules/redis.test.ts'] })(
    'a second rollback undoes the first',
    '(current.restores ?? current.version) - 1',
    'current.version - 1',
  ),
  read('a policy with conditions matches everything', 'conditions.length === 0 && until', 'until'),
  read('a policy that ends matches everything', ' && until === Infinity && isEnforced', ' && isEnforced'),
  replacement('a document that leaves requests is not warned of', 'if (leavesRest && ', 'if (false && '),
  replacement('a change of `otherwise` is no change', '|| !isEqual(before.otherwise, after.otherwise)', ''),
  charges('a request that is asked about counts as unmatched', 'this.#unmatched.delete(input as object)', 'true'),
  recorder('requests that no policy matches are not counted', '.outcomes[ALLOWED]!++', '.outcomes[ALLOWED]!'),
  doubts('a digit is a letter', '/\\p{L}/u', '/./u'),
  doubts('letter case is no mistake', 'value.toLowerCase()', 'value'),
  doubts('both of two values are misspelt', 'others[0]!.index < index', 'true'),
  compare('a change that cannot be compared passes', "found === expected || found === 'changed'", 'found === expected'),
  compare('a policy takes nothing from `otherwise`', 'hasRest && index', 'false && index'),
  explain('a part that differs was not given', "actual !== ''", 'false'),
  stored('a push is not announced', "redis.pcall('PUBLISH', key, following)", ''),
  compare('less is more', "after < before ? 'tightened' : 'loosened'", "after > before ? 'tightened' : 'loosened'"),
]
