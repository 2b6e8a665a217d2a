// Keys that a server loses before their end, without an error.
import { setTimeout as pause } from 'node:timers/promises'
import { beforeEach, expect, it, vi } from 'vitest'
import { fixedWindow, perMinute } from '../../../src/index.ts'
import { scriptClient } from '../../../src/stores/redis/clients.ts'
import { KeptKey } from '../../../src/stores/redis/kept.ts'
import { turns } from '../../../src/testing/waiting.ts'
import { loadWarnings } from '../../../src/util/warn-later.ts'
import { afterTest } from '../../support/after-test.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { COMMANDS, connect, connectWith, limiterOn, server } from '../../support/redis-tests.ts'

const warnings = warningsOfEachTest()
const now = performance.now.bind(performance)
let ahead = 0

beforeEach(async () => {
  await loadWarnings()
  vi.stubEnv('VITEST', undefined)
  vi.stubEnv('NODE_ENV', 'production')
  ahead = 0
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => now() + ahead)
  afterTest(() => spy.mockRestore())
})

const daily = fixedWindow({ quota: 100, window: '1d' })

it.each([
  ['removes keys to free memory', ['--maxmemory-policy', 'allkeys-lru'], 1],
  ['has enough memory', ['--maxmemory-policy', 'noeviction'], 0],
] as const)('a server that %s', async (_, options, losses) => {
  const { port } = await server(...options)
  const admin = connect(port)
  // The rights of the store are enough for the check.
  const limiter = limiterOn(await connectWith(COMMANDS, port), daily)
  const nextMinute = async (): Promise<void> => {
    ahead += 60_000
    await limiter.consume('k')
    // The answer of the next call comes after that of the check.
    await limiter.consume('k')
    await turns()
  }
  await limiter.consume('k')
  expect(await admin.keys('sluice:kept-*')).toEqual([])
  await nextMinute()
  const [kept] = await admin.keys('sluice:kept-*')
  const left = await admin.pttl(kept!)
  expect(left).toBeGreaterThan(3_590_000)
  expect(left).toBeLessThanOrEqual(3_600_000)
  await nextMinute()
  expect(warnings.codes).toEqual([])
  const used = Number(/used_memory:(\d+)/.exec(await admin.info('memory'))![1])
  if (losses > 0) await admin.config('SET', 'maxmemory', String(used + 100_000))
  for (let i = 0; i < 100 && (losses > 0 ? (await admin.exists(kept!)) > 0 : i < 5); i++) {
    const pipeline = admin.pipeline()
    for (let n = 0; n < 100; n++) pipeline.set(`other ${i} ${n}`, 'x'.repeat(100))
    await pipeline.exec()
  }
  await admin.config('SET', 'maxmemory', '0')
  expect(await admin.keys('sluice:kept-*')).toHaveLength(1 - losses)
  for (let i = 0; i < 5; i++) {
    await nextMinute()
    // It is lost again, and the next warning comes after an hour.
    if (losses > 0) await admin.del(kept!)
  }
  expect(warnings.codes).toEqual(Array(losses).fill('SLUICE_COUNTS_LOST'))
  if (losses > 0) expect(warnings.messages[0]).toMatch(/^Redis at 127\.0\.0\.1:\d+ has lost a key 60 minutes before/)
})

it('a key that has ended is not lost, and the next one is watched, too', async () => {
  const { port } = await server()
  const client = connect(port)
  const kept = new KeptKey({ name: 'Redis', scripts: scriptClient(client, undefined) }, 50)
  const check = (): Promise<void> => kept.check(100, () => 'kept')
  await check()
  await pause(150)
  expect(await client.exists('kept')).toBe(0)
  await check()
  expect(await client.exists('kept')).toBe(1)
  expect(warnings.codes).toEqual([])
  await client.del('kept')
  await check()
  expect(warnings.codes).toEqual(['SLUICE_COUNTS_LOST'])
})

it.each([
  ['a test run', { VITEST: 'true' }, daily],
  ['limits whose states end within two minutes', {}, perMinute(10)],
])('%s: nothing is checked', async (_, environment, limits) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  const client = connect((await server()).port)
  const limiter = limiterOn(client, limits)
  for (let i = 0; i < 3; i++) {
    for (let n = 0; n < 2; n++) await limiter.consume('k')
    ahead += 60_000
  }
  expect(await client.keys('*kept-*')).toEqual([])
})
