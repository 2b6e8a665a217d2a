// Runs the commands of docs/guides/on-call.md in their order, on a Redis in the state that the page describes.
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { createLimiter, guard, perMinute } from '../../src/index.ts'
import { rulesFromRedis, redisStore } from '../../src/rules/redis/index.ts'
import { CommandLine } from '../support/command-line.ts'
import { recordWarnings } from '../support/guarded.ts'
import { readPage } from '../support/pages.ts'
import { blocksOf } from '../support/programs.ts'
import { freePort, type RedisServer, startRedis } from '../support/redis.ts'

const blocks = blocksOf(readPage('docs/guides/on-call.md'))
const [document, edited] = blocks.filter(({ language }) => language === 'yaml').map(({ code }) => code)
const sessions = blocks
  .filter(({ language, code }) => language === 'text' && code.startsWith('$ npx sluice '))
  .map(({ code }) => {
    const [command, ...output] = code.trimEnd().split('\n')
    return { command: command!.slice('$ npx sluice '.length), shown: output.join('\n') }
  })

let cli: CommandLine
let server: RedisServer

beforeAll(async () => {
  cli = new CommandLine()
  server = await startRedis()
  await cli.output('rules', 'push', cli.file('rules.yaml', document!), server.url)
  cli.file('edited.yaml', edited!)
  cli.file('wrong.yaml', edited!.replace('quota: 1000', 'qouta: 1000'))
  const client = new Redis(server.url)
  const rules = await rulesFromRedis(client)
  const limiter = createLimiter({ rules, store: redisStore(client) })
  const request = (key: string) => ({ method: 'GET', path: '/api/items', headers: { 'x-api-key': key } })
  await Promise.all(Array.from({ length: 320 }, () => limiter.consume(request('shop-batch'))))
  await Promise.all(Array.from({ length: 12 }, () => limiter.consume(request('ann'))))
  await rules.close()
  client.disconnect()
}, 60_000)

afterAll(async () => {
  cli.remove()
  await server.stop()
})

/** Returns an output without times, people, lists of options and widths of columns. */
function timeless(text: string): string {
  return text
    .replaceAll(/\d+ (?:w|d|h|min|s|ms)\b(?: \d+ (?:d|h|min|s)\b)?/g, 'TIME')
    .replaceAll(/\S+@\S+/g, 'WRITER')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/redis:\/\/[\w.:]+\d/g, 'URL')
    .replaceAll(/expected one of .*?\. Did/g, 'expected one of OPTIONS. Did')
    .replaceAll(/ {2,}/g, '  ')
    .trimEnd()
}

// Each command sees what the ones before it have changed.
it.each(sessions)('$command', { timeout: 30_000 }, async ({ command, shown }) => {
  const words = command.replaceAll('redis://localhost:6379', server.url).split(' ')
  const { out, error } = await cli.run(words)
  expect(timeless(error + out)).toBe(timeless(shown))
})

it('the log line of an outage is as a process writes it', async () => {
  const [shown] = blocks.flatMap(({ code }) => (code.includes('[SLUICE_OUTAGE]') ? [code.trimEnd()] : []))
  const warnings = recordWarnings()
  const client = new Redis({ host: '127.0.0.1', port: await freePort() }).on('error', () => undefined)
  const store = guard(redisStore(client))
  const limiter = createLimiter({ keyer: (key: string) => key, limits: perMinute(9), store, shared: true })
  try {
    await vi.waitFor(async () => {
      await limiter.consume('k')
      expect(warnings.codes).toEqual(['SLUICE_OUTAGE'])
    }, 20_000)
  } finally {
    warnings.stop()
    await store.close()
    client.disconnect()
  }
  const numberless = (text: string): string => text.replaceAll(/:\d+|: \d+/g, ':N')
  expect(numberless(`(node:1) [SLUICE_OUTAGE] SluiceWarning: ${warnings.messages[0]}`)).toBe(numberless(shown!))
})
