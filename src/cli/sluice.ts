#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { boundedKey } from '../util/bounded-key.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { nearest } from '../util/validate.ts'
import { PREFIX, readRedisKey, redisKey } from '../stores/redis/keys.ts'
import { withRedis, withServers } from './connect.ts'
import { heldOf } from '../stores/held.ts'
import { fetchStored } from '../stores/redis/stored.ts'
import { resetKey } from '../stores/redis/reset-key.ts'
import { answerOf, escaped, EXIT, exitCodeOf, grouped, type Outcome, printed, withoutPasswords } from './print.ts'
import { rulesCommand } from './rules/command.ts'
import { replayCommand } from './replay/command.ts'
import { suggestCommand } from './suggest/command.ts'
import { topCommand } from './top/command.ts'
import { KeyScan } from './top/ranking.ts'

const USAGE = `Usage: sluice inspect <redis-url> <limiter> <key>   prints how much of its limits a key has used
       sluice reset <redis-url> <limiter> <key>     deletes the state of a key
       sluice top <redis-url>                       shows the most used keys, live: sluice top --help
       sluice replay <log> …                        tries limits on a log: sluice replay --help
       sluice suggest <log> …                       shows how many requests clients send: sluice suggest --help
       sluice rules <command> …                     checks, compares and replaces rules: sluice rules --help

  --raw             inspect: also prints what is stored in Redis
  --prefix <text>   the prefix of keys in Redis (default: ${PREFIX})
  --json            prints JSON
  --client <name>   ioredis, iovalkey, redis or @valkey/valkey-glide (default: the first that is installed)
  --help            prints this help

Exit code: 0 on success, 1 if the command fails, 2 if the call cannot be understood.
`

const COMMANDS: Readonly<Record<string, (args: readonly string[]) => Promise<Outcome>>> = {
  rules: rulesCommand,
  top: topCommand,
  replay: replayCommand,
  suggest: suggestCommand,
}

/** Runs `sluice inspect …` and `sluice reset …`. Options may come before the command. */
async function inspectOrReset(args: readonly string[]): Promise<Outcome> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      raw: { type: 'boolean', default: false },
      prefix: { type: 'string', default: PREFIX },
      json: { type: 'boolean', default: false },
      client: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return { text: USAGE }
  const [command = '', url = '', limiter = '', key = ''] = positionals
  if (command !== 'inspect' && command !== 'reset') throw unknown(command)
  if (positionals.length !== 4) throw misuse('expected a URL, a limiter and a key')
  const { prefix, client, json, raw } = values
  const name = redisKey(prefix, limiter, boundedKey(key))
  const { isFound, answer, text } = await withRedis(url, client, async (runner) => {
    if (command === 'reset') {
      const deleted = await resetKey(runner, name)
      const said = `${name}: ${deleted ? 'deleted' : 'no state was stored'}\n`
      return { isFound: deleted, answer: { key: name, deleted }, text: said }
    }
    const found = heldOf(name, await fetchStored(runner, name))
    return { isFound: found.limits.length > 0, answer: answerOf(found, raw), text: printed(found, raw) }
  })
  const known = isFound ? undefined : await limitersIn(url, client, prefix).catch(asError)
  // The state of the key is known: a user who may not list keys still receives it.
  if (known instanceof Error)
    return { text: json ? lines(answer) : text, note: `No list of limiters: ${known.message}\n` }
  const isUnknown = known !== undefined && !known.names.includes(limiter)
  if (!json) return { text: isUnknown ? `${text}${limiterLines(limiter, prefix, known)}` : text }
  return { text: lines(isUnknown ? { ...answer, limiters: known.names } : answer) }
}

function lines(answer: object): string {
  return `${JSON.stringify(answer, undefined, 2)}\n`
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

/** Keys that are looked at to find the names of limiters. A `SCAN` blocks Redis for about a millisecond for each thousand of them. */
const MOST_KEYS = 100_000
/** The names that are collected, and those that are printed. */
const MOST_LIMITERS = 1000
const MOST_PRINTED = 20

/** The limiters that have keys, in the order of their names. */
interface KnownLimiters {
  readonly names: readonly string[]
  /** False if there may be more. */
  readonly isComplete: boolean
}

async function limitersIn(url: string, client: string | undefined, prefix: string): Promise<KnownLimiters> {
  return withServers(url, client, async (runners) => {
    const names = new Set<string>()
    const isAtEnd = await new KeyScan(runners, prefix).next(MOST_KEYS, async (keys) => {
      for (const { name } of keys) {
        const { limiter = '' } = readRedisKey(prefix, name) ?? {}
        // Rules have a key without a limiter.
        if (limiter !== '' && names.size < MOST_LIMITERS) names.add(limiter)
      }
    })
    return { names: [...names].toSorted(), isComplete: isAtEnd && names.size < MOST_LIMITERS }
  })
}

function limiterLines(limiter: string, prefix: string, { names, isComplete }: KnownLimiters): string {
  const among = isComplete ? '' : ` among the first ${grouped(MOST_KEYS)} keys of Redis`
  if (names.length === 0)
    return `No limiter has a key with the prefix ${shown(prefix)}${among}. Check the URL and --prefix.\n`
  const near = nearest(limiter, names)
  const more = names.length > MOST_PRINTED ? ` and ${names.length - MOST_PRINTED} more` : ''
  return (
    `No key of the limiter ${shown(limiter)} exists${among}.${near === undefined ? '' : ` Did you mean ${shown(near)}?`}\n` +
    `Limiters with keys: ${names.slice(0, MOST_PRINTED).join(', ')}${more}\n`
  )
}

function unknown(command: string): SluiceError {
  if (command === '') return misuse('expected a command')
  const near = nearest(command, ['inspect', 'reset', ...Object.keys(COMMANDS)])
  return misuse(`there is no command ${shown(command)}${near === undefined ? '' : `. Did you mean ${shown(near)}?`}`)
}

function misuse(reason: string): SluiceError {
  return new SluiceError('INVALID_OPTION', `${reason}\n\n${USAGE}`)
}

async function main(): Promise<Outcome> {
  const [first = '', ...rest] = process.argv.slice(2)
  const command = Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined
  return command === undefined ? inspectOrReset(process.argv.slice(2)) : command(rest)
}

try {
  const { text, isExact = false, note = '', exitCode = EXIT.done } = await main()
  process.stdout.write(isExact && !process.stdout.isTTY ? text : escaped(text))
  process.stderr.write(escaped(note))
  process.exitCode = exitCode
} catch (error) {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(escaped(`sluice: ${withoutPasswords(message)}\n`))
  process.exitCode = exitCodeOf(error)
}
