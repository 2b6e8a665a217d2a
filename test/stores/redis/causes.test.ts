// Why a client has no connection: the cause is in the warning, also where the client fails commands with words of its own.
import { createServer as createTlsServer } from 'node:tls'
import type { AddressInfo } from 'node:net'
import { Cluster, Redis } from 'ioredis'
import { Cluster as IovalkeyCluster, Redis as Iovalkey } from 'iovalkey'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'
import { failure } from '../../../src/stores/redis/failure.ts'
import { casesHere, QUICK } from '../../parts.ts'
import { expired } from '../../support/expired-certificate.ts'
import { guardedOn, warningsOfEachTest } from '../../support/guarded.ts'
import { freePort, type RedisServer, startRedis } from '../../support/redis.ts'
import { afterTest } from '../../support/after-test.ts'
import { until } from '../../support/redis-tests.ts'

const host = '127.0.0.1'
const ports = { refused: 0, password: 0, certificate: 0 }
type Cause = keyof typeof ports
const words: Record<Cause, RegExp> = {
  refused: /connect ECONNREFUSED 127\.0\.0\.1:\d+/,
  password: /WRONGPASS invalid username-password pair or user is disabled/,
  certificate: /certificate has expired/,
}

const secure = createTlsServer(expired)
let guarded: RedisServer
beforeAll(async () => {
  guarded = await startRedis('--requirepass', 'right')
  ports.password = guarded.port
  ports.refused = await freePort()
  await new Promise<void>((resolve) => void secure.listen(0, host, resolve))
  ports.certificate = (secure.address() as AddressInfo).port
})
afterAll(async () => {
  secure.close()
  await guarded.stop()
})

const warnings = warningsOfEachTest()
// Clients print errors that have no listener.
beforeEach(() => void vi.spyOn(console, 'error').mockReturnValue(undefined))

/** Returns the warning about the outage of a client. */
async function warningOf(client: RedisClient & { disconnect(): void }): Promise<string> {
  afterTest(() => client.disconnect())
  const { limiter } = guardedOn(redisStore(client))
  // Without a queue of its own, the client fails a command at once, before it knows why it has no connection.
  if ((client as { options?: { enableOfflineQueue?: boolean } }).options?.enableOfflineQueue === false) await pause(200)
  await until(async () => {
    await limiter.consume('k')
    await pause(10)
    return warnings.codes.includes('SLUICE_OUTAGE')
  })
  return warnings.messages[warnings.codes.indexOf('SLUICE_OUTAGE')]!
}

async function optionsFor(cause: Cause): Promise<object> {
  if (cause === 'certificate') return { host, port: ports.certificate, tls: { ca: expired.cert } }
  if (cause === 'refused') return { host, port: ports.refused }
  return { host, port: ports.password, password: 'wrong' }
}

const modes = {
  'its default options': {},
  'maxRetriesPerRequest: 0': { maxRetriesPerRequest: 0 },
  'maxRetriesPerRequest: 1': { maxRetriesPerRequest: 1 },
  'enableOfflineQueue: false': { enableOfflineQueue: false },
  'no retries': { retryStrategy: () => null },
}
const CAUSES = ['refused', 'password', 'certificate'] as const
const QUICK_MODES = new Set(['its default options', 'maxRetriesPerRequest: 0'])

/** iovalkey is a copy of ioredis: one mode shows that it has the same words. */
const clients = [
  ['ioredis', (options: object) => new Redis(options), Object.entries(modes)],
  ['iovalkey', (options: object) => new Iovalkey(options), Object.entries(modes).slice(0, 1)],
] as const
const cases = clients.flatMap(([client, connect, some]) =>
  some.flatMap(([mode, options]) => CAUSES.map((cause) => [client, mode, cause, connect, options] as const)),
)
const isQuick = ([client, mode, cause]: (typeof cases)[number]): boolean =>
  client === 'ioredis' && QUICK_MODES.has(mode) && cause !== 'certificate'

it.each(casesHere(cases, isQuick))(
  'the warning about %s with %s says the cause: %s',
  async (_, __, cause, connect, options) => {
    const client = connect({ ...(await optionsFor(cause)), ...options })
    client.on('error', () => undefined)
    const warning = await warningOf(client)
    expect(warning).toMatch(words[cause])
    expect(warning).not.toMatch(/\.\.|\.\)\.|max retries|Stream isn't|Connection is closed/)
  },
)

const withoutPassword = cases.filter(([, , cause]) => cause !== 'password')
it.each(casesHere(withoutPassword, isQuick))(
  'the warning about %s with %s says the cause without a listener for errors: %s',
  async (_, __, cause, connect, options) => {
    const warning = await warningOf(connect({ ...(await optionsFor(cause)), ...options }))
    expect(warning).toMatch(words[cause])
  },
)

const clusters = [
  ['ioredis', Cluster],
  ['iovalkey', IovalkeyCluster],
] as const
it.each(casesHere(clusters, ([client]) => client === 'ioredis'))(
  'the warning about a cluster of %s says why no server is asked',
  async (_, Client) => {
    const client = new Client([{ host, port: ports.password }], {
      redisOptions: { password: 'wrong' },
      clusterRetryStrategy: () => 20,
    })
    client.on('error', () => undefined)
    const warning = await warningOf(client)
    expect(warning).toMatch(/WRONGPASS|NOAUTH/)
    expect(warning).not.toMatch(/\.\.|Failed to refresh slots/)
  },
)

it.each(QUICK)(
  'a line break at the end of an error, as of TLS and of valkey-glide, does not break the sentence',
  () => {
    for (const words of ['tlsv13 alert certificate required:SSL alert number 116', 'IoError: timed out'])
      expect(failure(new Error(`${words}\n`)).message).toMatch(new RegExp(`${words}\\)? \\(sluice`))
  },
)

it.each(QUICK)('an error of the server is not replaced by an older one of the connection', () => {
  expect(failure(new Error('OOM command not allowed'), 'connect ECONNREFUSED').message).toMatch(/Redis is full/)
  expect(failure(new Error('NOAUTH Authentication required.'), 'connect ECONNREFUSED').message).toMatch(
    /\(NOAUTH Authentication required\)/,
  )
})
