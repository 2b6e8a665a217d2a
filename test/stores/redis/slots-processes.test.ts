import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { concurrent, createLimiter } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { builtPackage } from '../../support/built.ts'
import { afterTest } from '../../support/after-test.ts'
import { connect, server } from '../../support/redis-tests.ts'

const WORKER = fileURLToPath(new URL('../../support/slots-worker.mjs', import.meta.url))
const PROCESSES = 5
const QUOTA = 6
const LEASE = 1500

it('five processes never run more than the quota, and the slots of a killed one are back after one lease', async () => {
  const { port } = await server()
  const client = connect(port)
  const name = randomUUID()
  const limit = { quota: QUOTA, expiresAfter: LEASE }
  const job = JSON.stringify({ package: await builtPackage(), port, name, limit })
  const workers = Array.from({ length: PROCESSES }, () => fork(WORKER, [job], { execArgv: [] }))
  afterTest(() => workers.forEach((each) => each.kill()))
  await Promise.all(workers.map((each) => once(each, 'message')))
  await pause(700)
  // A process that is killed in the middle does not note that its requests have ended.
  const [victim, ...others] = workers as [(typeof workers)[0], ...typeof workers]
  let lost = 0
  while (lost === 0) lost = Number(await client.hget(`${name}:running`, String(victim.pid)))
  victim.kill('SIGKILL')
  await once(victim, 'exit')
  await pause(300)
  const answers = others.map((each) => once(each, 'message') as Promise<[{ admitted: number; most: number }]>)
  for (const each of others) each.send('end')
  const reports = (await Promise.all(answers)).map(([report]) => report)
  expect(Math.max(...reports.map(({ most }) => most))).toBeLessThanOrEqual(QUOTA)
  expect(Math.max(...reports.map(({ most }) => most))).toBeGreaterThan(1)
  expect(reports.every(({ admitted }) => admitted > 0)).toBe(true)
  // All that is left is what the killed process held, at most for one lease.
  const limiter = createLimiter({ name, keyer: () => 'key', limits: concurrent(limit), store: redisStore(client) })
  const left = (await limiter.peek({}, { cost: 0 })).limits[0]!
  expect(left.used).toBeLessThanOrEqual(4)
  await pause(left.resetAfter + 5)
  expect((await limiter.consume({}, { cost: QUOTA })).allowed).toBe(true)
  expect(left.resetAfter).toBeLessThanOrEqual(LEASE)
})
