// Runs the servers of the pages about Redis while their Redis is frozen, stopped and started again.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readPage } from '../support/pages.ts'
import { blocksOf, Programs } from '../support/programs.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

const MINUTE = 60_000

describe('servers on a Redis that does not answer', { timeout: MINUTE }, () => {
  const [first, choosing] = ['docs/guides/redis.md', 'docs/guides/redis-outages.md']
    .flatMap((page) => blocksOf(readPage(page)))
    .filter(({ code }) => code.includes('redisStore(') && code.includes('.listen('))
    .map(({ language, line, code }) => ({ language, line, code }))
  const servers = { first: first!, choosing: choosing! }
  let mortal: RedisServer
  let itsPort: number
  let programs: Programs

  beforeAll(async () => {
    mortal = await startRedis()
    itsPort = mortal.port
    programs = await Programs.compile(new Map(Object.entries(servers)), { 'redis://localhost:6379': mortal.url })
  }, 2 * MINUTE)

  afterAll(async () => {
    await mortal.stop()
    await programs.remove()
  })

  it.each([
    ['first', 'hello', 'hello'],
    ['choosing', 'decided', 'open'],
  ] as const)('the %s one answers within two seconds, and again after a restart', async (name, decided, without) => {
    async function answer(port: number): Promise<[status: number, body: string]> {
      const response = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(2000) })
      return [response.status, await response.text()]
    }
    // A busy machine may not connect within the deadline of the first decision.
    const decides = (port: number): Promise<void> =>
      vi.waitFor(async () => expect(await answer(port)).toEqual([200, decided]), 10_000)
    const outlives = async (port: number): Promise<void> => {
      await decides(port)
      mortal.process.kill('SIGSTOP')
      expect(await answer(port)).toEqual([200, without])
      mortal.process.kill('SIGCONT')
      await decides(port)
      await mortal.stop()
      expect(await answer(port)).toEqual([200, without])
      mortal = await startRedis('--port', String(itsPort))
      await decides(port)
    }
    await programs.verify(name, servers[name], outlives, 'runs')
  })
})
