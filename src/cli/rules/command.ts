import type { ReadOptions } from '../../rules/compile.ts'
import { allPolicies, type CompiledRules } from '../../rules/dimensions.ts'
import { mistakesIn, problemText, type RulesProblem } from '../../rules/document.ts'
import {
  checkedRules,
  type PulledRules,
  pullRules,
  pushChecked,
  rollbackRules,
  rulesHistory,
  type RulesPush,
} from '../../rules/redis/stored.ts'
import { readRulesFile } from '../../rules/read.ts'
import { type CompiledText, compileText, type RulesText } from '../../rules/text.ts'
import { shown, SluiceError } from '../../util/errors.ts'
import { CLIENT_NAMES, withRedis } from '../connect.ts'
import { command, type Command as CliCommand, Misuse, unknownCommand, type ValuesOf } from '../command.ts'
import { clientAddress } from '../../http/keys/address.ts'
import type { RedisClient } from '../../stores/redis/clients.ts'
import { PREFIX } from '../../stores/redis/keys.ts'
import { EXIT, inOneLine, jsonText, type Outcome } from '../print.ts'
import { differences, type Effect, EFFECTS, mayHave, printedDifferences } from './diff.ts'
import { doubtsOf } from './doubts.ts'
import { historyOf, printedHistory } from './history.ts'
import { explain, printedExplanation } from './explain.ts'

/** The place of rules in Redis, and the client that reads them. */
interface Place {
  readonly name: string
  readonly prefix: string
  readonly client?: string | undefined
}

/** Connects to Redis, and calls `work` with the place of the rules there. */
async function atRedis<Answer>(
  url: string,
  { name, prefix, client }: Place,
  work: (client: RedisClient, place: { readonly name: string; readonly prefix: string }) => Promise<Answer>,
): Promise<Answer> {
  if (!isRedisUrl(url)) throw misuse('a Redis URL')
  return withRedis(url, client, (_, connected) => work(connected, { name, prefix }))
}

async function pulled(url: string, place: Place): Promise<PulledRules> {
  const found = await atRedis(url, place, pullRules)
  if (found === undefined) throw noRules(place.name)
  return found
}

function loadText(from: string, place: Place): Promise<RulesText> {
  return isRedisUrl(from) ? pulled(from, place) : readRulesFile(from)
}

export function isRedisUrl(text: string): boolean {
  return /^(redis|valkey)s?:/i.test(text)
}

function noRules(name: string): SluiceError {
  return new SluiceError('RULES_UNREACHABLE', `Redis has no rules named ${shown(name)}`)
}

/** Compiles a document from a file or from Redis. Throws `INVALID_RULES` with all its mistakes. */
export async function loadRules(from: string, place: Place, options?: ReadOptions): Promise<CompiledRules> {
  const { compiled } = await compileText(await loadText(from, place), options)
  return compiled
}

/** Returns the result of `work`, or the mistakes of its document. */
async function orMistakes<Result extends object>(work: Promise<Result>): Promise<Result | readonly RulesProblem[]> {
  return work.catch((error: unknown) => {
    const problems = mistakesIn(error)
    if (problems === undefined) throw error
    return problems
  })
}

function isProblems(found: object): found is readonly RulesProblem[] {
  return Array.isArray(found)
}

const USAGE = `Usage: sluice rules check <rules>               lists all mistakes
       sluice rules diff <old> <new>            lists the differences
       sluice rules push <file> <redis-url>     replaces the rules in Redis
       sluice rules pull <redis-url>            prints the rules in Redis as they were pushed
       sluice rules history <redis-url>         lists who pushed which changes, and when
       sluice rules rollback <redis-url> [version]  pushes the rules of an earlier version again (default: the one before)
       sluice rules explain <rules>             shows which policies apply to a request, and why

<rules>, <old> and <new> are files (.json, .yaml, .yml) or Redis URLs.

  --json                      prints JSON
  --name <text>               the name of the rules in Redis (default: rules)
  --prefix <text>             the prefix of keys in Redis (default: ${PREFIX})
  --client <name>             ioredis, iovalkey or redis (default: the first that is installed)
  --version <number>          push: the version to replace (default: the version in Redis when the command starts)
  --fail-on <effects>         diff: loosened, tightened or both with a comma. A difference that does this, or may do it, exits with 1
  --writer <text>             push, rollback: the name of the person or program that pushes (default: user@host)
  --method, --path, --ip      explain: the request
  --header <name>=<value>     explain: a header of it; may be repeated
  --attribute <name>=<value>  explain: an attribute of it; may be repeated
  --redis <redis-url>         explain: where usage is counted
  --limiter <name>            explain: the name of the limiter in the application (default: rules)

Exit status: 0 on success, 1 if the rules have mistakes, a push is rejected or --fail-on finds a difference, 2 if the arguments are wrong.
`

const text = { type: 'string' } as const
const texts = { type: 'string', multiple: true, default: [] as string[] } as const

const OPTIONS = {
  json: { type: 'boolean', default: false },
  name: { ...text, default: 'rules' },
  prefix: { ...text, default: PREFIX },
  client: text,
  version: text,
  'fail-on': text,
  writer: text,
  method: text,
  path: text,
  ip: text,
  header: texts,
  attribute: texts,
  redis: text,
  limiter: { ...text, default: 'rules' },
} as const

type Values = ValuesOf<typeof OPTIONS>
type Subcommand = (words: readonly string[], values: Values) => Promise<Outcome>

/** The commands. Each has digits for the allowed numbers of words, and its own options in addition to the options of all commands. */
const COMMANDS: Readonly<Record<string, readonly [words: string, work: Subcommand, ...options: (keyof Values)[]]>> = {
  check: ['1', check],
  diff: ['2', diff, 'fail-on'],
  push: ['2', push, 'version', 'writer'],
  pull: ['1', pull],
  history: ['1', history],
  rollback: ['12', rollback, 'writer'],
  explain: ['1', explainRequest, 'method', 'path', 'ip', 'header', 'attribute', 'redis', 'limiter'],
}
const OF_ALL: readonly (keyof Values)[] = ['json', 'name', 'prefix', 'client']

export const rulesCommand: CliCommand = command(USAGE, OPTIONS, async ([name = '', ...words], values, _io, named) => {
  const found = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (found === undefined) throw unknownCommand(name, Object.keys(COMMANDS))
  const [counts, work, ...options] = found
  if (!counts.includes(String(words.length))) {
    const expected = `${Array.from(counts).join(' or ')} argument${counts === '1' ? '' : 's'}`
    throw misuse(`${expected} after ${name}, got ${words.length}`)
  }
  const known = new Set<string>([...OF_ALL, ...options])
  for (const each of named) if (!known.has(each)) throw misuse(`no --${each} with ${name}`)
  const { client } = values
  if (client !== undefined && !CLIENT_NAMES.includes(client))
    throw misuse(`one of ${CLIENT_NAMES.join(', ')} as --client`)
  return work(words, values)
})

function misuse(expected: string): Misuse {
  return new Misuse(`expected ${expected}`)
}

async function check([from]: readonly string[], values: Values): Promise<Outcome> {
  const { json } = values
  const found = await orMistakes(compileText(await loadText(from!, values)))
  const [problems, warnings] = isProblems(found) ? [found, []] : [[], warningsOf(found)]
  const exitCode = problems.length === 0 ? EXIT.done : EXIT.failed
  if (json) return { text: jsonText({ valid: exitCode === EXIT.done, problems, warnings }), exitCode }
  const lines = exitCode === EXIT.done ? `${from}: no mistakes\n` : problemLines(problems)
  return { text: lines, note: problemLines(warnings, 'warning: '), exitCode }
}

function warningsOf({ compiled, located }: CompiledText): readonly RulesProblem[] {
  return located(doubtsOf(compiled))
}

function problemLines(problems: readonly RulesProblem[], label = ''): string {
  return problems.map((each) => `${label}${problemText(each)}\n`).join('')
}

async function diff([old, next]: readonly string[], values: Values): Promise<Outcome> {
  const { json } = values
  const effects = (values['fail-on'] ?? '').split(',').filter((each) => each !== '')
  if (values['fail-on'] !== undefined && (effects.length === 0 || !effects.every(isEffect)))
    throw misuse(`${EFFECTS.join(' or ')}, or both with a comma, as --fail-on`)
  const found = differences(await loadRules(old!, values), await loadRules(next!, values))
  const failing = found.filter((each) => effects.some((effect) => mayHave(each, effect as Effect)))
  return {
    text: json ? jsonText({ differences: found }) : printedDifferences(found),
    ...(failing.length > 0 && {
      note: `--fail-on ${effects.join()}: ${failing.length} of ${found.length} differences\n`,
      exitCode: EXIT.failed,
    }),
  }
}

function isEffect(text: string): boolean {
  return (EFFECTS as readonly string[]).includes(text)
}

async function push([from, url]: readonly string[], values: Values): Promise<Outcome> {
  const { json, writer, version, name } = values
  if (isRedisUrl(from!) || !isRedisUrl(url!)) throw misuse('a file and a Redis URL')
  if (version !== undefined && !/^\d{1,15}$/.test(version)) throw misuse('a whole number as --version')
  const found = await orMistakes(checkedRules(await readRulesFile(from!)))
  if (isProblems(found))
    return { text: json ? jsonText({ pushed: false, problems: found }) : problemLines(found), exitCode: EXIT.failed }
  try {
    const made = await atRedis(url!, values, async (client, place) => {
      const expected = version === undefined ? ((await pullRules(client, place))?.version ?? 0) : Number(version)
      return pushChecked(client, found, { ...place, version: expected, ...(writer !== undefined && { writer }) })
    })
    const lines = json ? jsonText({ pushed: true, ...made }) : `${name}: version ${made.version} is pushed\n`
    return { text: lines, note: problemLines(warningsOf(found), 'warning: ') }
  } catch (error) {
    if (!json || !(error instanceof SluiceError) || error.code !== 'RULES_CONFLICT') throw error
    return { text: jsonText({ pushed: false, conflict: error.cause as RulesPush }), exitCode: EXIT.failed }
  }
}

async function pull([url]: readonly string[], values: Values): Promise<Outcome> {
  const found = await pulled(url!, values)
  if (values.json) return { text: jsonText(found) }
  const when = new Date(found.pushedAt).toISOString()
  return {
    text: found.text,
    isExact: true,
    note: `version ${found.version}, pushed by ${inOneLine(found.writer)} at ${when}\n`,
  }
}

async function history([url]: readonly string[], values: Values): Promise<Outcome> {
  const pushes = await atRedis(url!, values, rulesHistory)
  if (pushes.length === 0) throw noRules(values.name)
  const all = await historyOf(pushes)
  return { text: values.json ? jsonText({ history: all }) : printedHistory(all) }
}

async function rollback([url, version]: readonly string[], values: Values): Promise<Outcome> {
  const { json, writer, name } = values
  if (version !== undefined && !/^[1-9]\d{0,14}$/.test(version)) throw misuse('the number of a version')
  const chosen = { ...(version !== undefined && { version: Number(version) }), ...(writer !== undefined && { writer }) }
  const made = await atRedis(url!, values, (client, place) => rollbackRules(client, { ...place, ...chosen }))
  if (json) return { text: jsonText(made) }
  return { text: `${name}: version ${made.version} is pushed. It restores version ${made.restores}\n` }
}

async function explainRequest([from]: readonly string[], values: Values): Promise<Outcome> {
  const { method, path, ip, json, limiter, prefix } = values
  if (ip !== undefined && clientAddress(ip) === undefined) throw misuse('an address as --ip')
  if (path !== undefined && !path.startsWith('/')) throw misuse('a path that begins with / as --path')
  const [headers, given] = [pairs('--header', values.header), pairs('--attribute', values.attribute)]
  const rules = await loadRules(from!, values)
  const input = { method, path, ip, headers, attributes: withCosts(rules, given) }
  const url = values.redis ?? (isRedisUrl(from!) ? from : undefined)
  const found =
    url === undefined
      ? await explain(rules, input, undefined)
      : await withRedis(url, values.client, (scripts, client) =>
          explain(rules, input, { client, scripts, limiter, prefix }),
        )
  return { text: json ? jsonText(found) : printedExplanation(found) }
}

/** Makes numbers of the attributes that are costs. The words of a command line are texts. */
function withCosts(
  rules: CompiledRules,
  given: Readonly<Record<string, string>>,
): Readonly<Record<string, string | number>> {
  const costs = new Set(allPolicies(rules).map(({ rule }) => rule.cost))
  const isCost = (name: string, value: string): boolean => costs.has(name) && /^\d{1,15}$/.test(value)
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, isCost(name, value) ? Number(value) : value]),
  )
}

function pairs(option: string, given: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    given.map((each) => {
      const end = each.indexOf('=')
      if (end < 1) throw misuse(`${option} name=value`)
      return [each.slice(0, end), each.slice(end + 1)]
    }),
  )
}
