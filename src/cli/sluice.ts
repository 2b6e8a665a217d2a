#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { boundedKey } from '../util/bounded-key.ts'
import { SluiceError } from '../util/errors.ts'
import { PREFIX, redisKey } from '../stores/redis/keys.ts'
import { withRedis } from './connect.ts'
import { fetchHeld } from '../stores/redis/inspect/fetch.ts'
import { held } from '../stores/redis/inspect/held.ts'
import { resetKey } from '../stores/redis/reset-key.ts'
import type { Outcome } from './outcome.ts'
import { escaped, printed, withoutPasswords } from './print.ts'
import { rulesCommand } from './rules/command.ts'
import { replayCommand } from './replay/command.ts'
import { suggestCommand } from './suggest/command.ts'
import { topCommand } from './top/command.ts'

const USAGE = `Usage: sluice inspect <redis-url> <limiter> <key>   prints the state of a key
       sluice reset <redis-url> <limiter> <key>     deletes it
       sluice top <redis-url>                       shows the most used keys, live: sluice top --help
       sluice replay <log> …                        tries limits on a log: sluice replay --help
       sluice suggest <log> …                       shows how many requests clients send: sluice suggest --help
       sluice rules <command> …                     checks, compares and replaces rules: sluice rules --help

  --prefix <text>   the prefix of keys in Redis (default: ${PREFIX})
  --json            prints JSON
  --client <name>   ioredis, iovalkey, redis or @valkey/valkey-glide (default: the first that is installed)
  --help            prints this help
`

async function inspectOrReset(): Promise<string> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      prefix: { type: 'string', default: PREFIX },
      json: { type: 'boolean', default: false },
      client: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return USAGE
  const [command, url, limiter, key] = positionals
  if (positionals.length !== 4 || (command !== 'inspect' && command !== 'reset')) {
    throw new SluiceError('INVALID_OPTION', `expected inspect or reset, a URL, a limiter and a key\n\n${USAGE}`)
  }
  const name = redisKey(values.prefix, limiter!, boundedKey(key!))
  return withRedis(url!, values.client, async (runner) => {
    if (command === 'inspect') return printed(held(name, await fetchHeld(runner, name)), values.json)
    const gone = await resetKey(runner, name)
    return values.json
      ? `${JSON.stringify({ key: name, deleted: gone })}\n`
      : `${name}: ${gone ? 'deleted' : 'no state was stored'}\n`
  })
}

async function main(): Promise<Outcome> {
  const [first, ...rest] = process.argv.slice(2)
  if (first === 'rules') return rulesCommand(rest)
  if (first === 'top') return topCommand(rest)
  if (first === 'replay') return replayCommand(rest)
  if (first === 'suggest') return suggestCommand(rest)
  return { text: await inspectOrReset() }
}

/** The commands that exit with 2 for a call that cannot be understood. */
const STRICT = new Set(['rules', 'replay', 'suggest'])
const MISUSE = new Set(['INVALID_OPTION', 'UNKNOWN_OPTION', 'UNKNOWN_ALGORITHM', 'DUPLICATE_LIMIT'])

/** Returns 2 for a call of these commands that cannot be understood, else 1. */
function statusOf(error: unknown): number {
  const { code = '' } = error as { code?: string }
  const isMisuse = MISUSE.has(code) || code.startsWith('ERR_PARSE_ARGS')
  return isMisuse && STRICT.has(process.argv[2]!) ? 2 : 1
}

try {
  const { text, isExact = false, note = '', exitCode = 0 } = await main()
  process.stdout.write(isExact && !process.stdout.isTTY ? text : escaped(text))
  process.stderr.write(escaped(note))
  process.exitCode = exitCode
} catch (error) {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(escaped(`sluice: ${withoutPasswords(message)}\n`))
  process.exitCode = statusOf(error)
}
