#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { boundedKey } from '../util/bounded-key.ts'
import { SluiceError } from '../util/errors.ts'
import { PREFIX, redisKey } from '../stores/redis/keys.ts'
import { withRedis } from './connect.ts'
import { fetchHeld } from './fetch.ts'
import { held } from './inspect.ts'
import { escaped, printed } from './print.ts'

const USAGE = `Usage: sluice inspect <redis-url> <limiter> <key>   prints the state of a key
       sluice reset <redis-url> <limiter> <key>     deletes it

  --prefix <text>   the prefix of keys in Redis (default: ${PREFIX})
  --json            prints JSON
  --client <name>   ioredis, iovalkey, redis or @valkey/valkey-glide (default: the first one that is installed)
  --help            prints this help
`

async function main(): Promise<string> {
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
    const gone = Number(await runner.eval("return redis.call('DEL', KEYS[1])", [name], [])) > 0
    return values.json
      ? `${JSON.stringify({ key: name, forgotten: gone })}\n`
      : `${name}: ${gone ? 'forgotten' : 'nothing was held'}\n`
  })
}

try {
  process.stdout.write(escaped(await main()))
} catch (error) {
  process.stderr.write(escaped(`sluice: ${error instanceof Error ? error.message : String(error)}\n`))
  process.exitCode = 1
}
