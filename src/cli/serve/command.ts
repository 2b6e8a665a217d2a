import { isIP } from 'node:net'
import type { HeaderStyle } from '../../http/headers/types.ts'
import { rulesFromFile } from '../../rules/file.ts'
import { rulesFromRedis } from '../../rules/redis/source.ts'
import type { Rules } from '../../rules/rules.ts'
import type { RulesInput } from '../../limiter/rule-source.ts'
import { Service } from '../../service/service.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import type { RedisClient } from '../../stores/redis/clients.ts'
import { redisStore } from '../../stores/redis/index.ts'
import { PREFIX } from '../../stores/redis/keys.ts'
import type { Degraded, Store } from '../../stores/store.ts'
import { SluiceError } from '../../util/errors.ts'
import { LONGEST_SOCKET_NAME } from '../../util/socket-name.ts'
import { command, type Command, Misuse, type ValuesOf } from '../command.ts'
import { closing, withRedis } from '../connect.ts'
import { isDatabaseUrl, withStore } from '../databases.ts'
import { isRedisUrl } from '../rules/command.ts'
import { type Address, serverOf, serveUntilStopped } from './server.ts'

const USAGE = `Usage: sluice serve <rules>        decides for other programs over HTTP

<rules> is a file (.json, .yaml, .yml) or the URL of a Redis. A new version applies within a second.

  --port <number>           the port (default: 8080)
  --host <address>          the address to listen at (default: 127.0.0.1)
  --socket <file>           a socket file in place of a port
  --store <url>             where counts live: redis://, postgres://, mysql:// or sqlite:<file> (default: the memory of this process)
  --on-outage <word>        local, open or closed: how requests are decided while the store does not answer (default: local)
  --limiter <name>          the name of the limiter (default: rules)
  --headers <style>         the rate-limit headers (default: standard); may be repeated
  --address-header <name>   the header with the address of a client, for /check (default: x-real-ip)
  --name <text>             the name of the rules in Redis (default: rules)
  --prefix <text>           the prefix of keys in Redis (default: ${PREFIX})
  --table, --schema         the table in PostgreSQL, MySQL or SQLite (default: sluice)
  --client <name>           ioredis, iovalkey or redis (default: the first that is installed)
  --help                    prints this help

SLUICE_TOKEN in the environment is the token that clients send as "Authorization: Bearer …"; several are separated by commas. Without it, only a socket
file or an address of this machine is served.

SIGTERM and SIGINT end it: open requests are answered first. Exit code: 0 then, 1 if it cannot start, 2 if the call cannot be understood.
`

const text = { type: 'string' } as const

const OPTIONS = {
  port: text,
  host: text,
  socket: text,
  store: text,
  'on-outage': text,
  limiter: text,
  headers: { type: 'string', multiple: true },
  'address-header': text,
  name: { ...text, default: 'rules' },
  prefix: { ...text, default: PREFIX },
  table: text,
  schema: text,
  client: text,
} as const

type Values = ValuesOf<typeof OPTIONS>

/** Runs `sluice serve …` until a signal ends it. */
export const serveCommand: Command = command(USAGE, OPTIONS, async (words, values, io) => {
  const [from] = words
  if (from === undefined || words.length > 1) throw new Misuse('expected a file of rules, or the URL of a Redis')
  const address = addressIn(values)
  const token = tokenIn(process.env['SLUICE_TOKEN'], address)
  if (token === false)
    io.stderr.write(
      'SLUICE_TOKEN is not set: every program that reaches this address or file can use the quotas of all clients.\n',
    )
  return withCounts(values, (store) =>
    withRules(from, values, async (rules) => {
      await store.ready?.()
      rules.on('change', ({ after }) => io.stderr.write(`Version ${after.version} of the rules applies.\n`))
      const service = new Service({ rules, store, token, ...serviceOptions(values) })
      await serveUntilStopped(serverOf(service), address, (where) => io.stdout.write(`sluice serves ${where}\n`))
      service.close()
      return { text: '' }
    }),
  )
})

function serviceOptions(values: Values): object {
  const { 'on-outage': onOutage, limiter, headers, 'address-header': addressHeader } = values
  return {
    ...(limiter !== undefined && { name: limiter }),
    ...(onOutage !== undefined && { onOutage: onOutage as Degraded }),
    ...(headers !== undefined && { headers: headers as HeaderStyle[] }),
    ...(addressHeader !== undefined && { addressHeader }),
  }
}

function addressIn({ port, host, socket }: Values): Address {
  if (socket !== undefined) {
    if (port !== undefined || host !== undefined) throw new Misuse('expected --socket, or --port and --host')
    return { socket: socketFile(socket) }
  }
  const number = Number(port ?? 8080)
  if (!Number.isInteger(number) || number < 0 || number > 65_535 || port === '')
    throw new Misuse('expected --port from 0 to 65535')
  return { host: host ?? '127.0.0.1', port: number }
}

function socketFile(name: string): string {
  if (name === '' || Buffer.byteLength(name) > LONGEST_SOCKET_NAME)
    throw new Misuse(`expected --socket with the name of a file, of at most ${LONGEST_SOCKET_NAME} bytes`)
  // Node takes a number for a port, at which other machines reach the service.
  return Number(name) >= 0 ? `./${name}` : name
}

/** Returns the tokens from the environment, or false for a service that only this machine can reach. */
function tokenIn(given: string | undefined, address: Address): readonly string[] | false {
  if (given !== undefined) return given.split(',')
  if ('socket' in address || isOfThisMachine(address.host)) return false
  throw new SluiceError(
    'INVALID_OPTION',
    `--host ${address.host}: other machines can reach this address. Set SLUICE_TOKEN to a random text of at least 16 characters, which clients send`,
  )
}

function isOfThisMachine(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

async function withCounts<Answer>(values: Values, work: (store: Store) => Promise<Answer>): Promise<Answer> {
  const { store: url, prefix, client } = values
  if (url === undefined) return work(memoryStore())
  if (isDatabaseUrl(url)) return withStore(url, values, work)
  return withRedis(url, client, (_, connected) => closing(redisStore(connected, { prefix }), work), true)
}

async function withRules<Answer>(
  from: string,
  { name, prefix, client }: Values,
  work: (rules: Rules<RulesInput>) => Promise<Answer>,
): Promise<Answer> {
  if (!isRedisUrl(from)) return closing(await rulesFromFile<RulesInput>(from), work)
  const follow = async (_: unknown, connected: RedisClient): Promise<Answer> =>
    closing(await rulesFromRedis<RulesInput>(connected, { name, prefix }), work)
  return withRedis(from, client, follow, true)
}
