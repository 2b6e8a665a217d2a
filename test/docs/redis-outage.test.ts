// Runs the server of the page about outages of Redis while its Redis is frozen, stopped and started again.
import { expect, it, onTestFinished, vi } from 'vitest'
import { readPage } from '../support/pages.ts'
import { blocksOf, Programs } from '../support/programs.ts'
import { startRedis } from '../support/redis.ts'

it('a server answers within two seconds without Redis, and again after a restart', { timeout: 180_000 }, async () => {
  const { language, line, code } = blocksOf(readPage('docs/guides/redis-outages.md')).find(
    (each) => each.code.includes('redisStore(') && each.code.includes('.listen('),
  )!
  let mortal = await startRedis()
  onTestFinished(() => mortal.stop())
  const server = { language, line, code }
  const programs = await Programs.compile(new Map([['server', server]]), { 'redis://localhost:6379': mortal.url })
  onTestFinished(() => programs.remove())

  async function answer(port: number): Promise<[status: number, body: string]> {
    const response = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(2000) })
    return [response.status, await response.text()]
  }
  // A busy machine may not connect within the deadline of the first decision.
  const decides = (port: number): Promise<void> =>
    vi.waitFor(async () => expect(await answer(port)).toEqual([200, 'decided']), 10_000)
  const outlives = async (port: number): Promise<void> => {
    await decides(port)
    mortal.process.kill('SIGSTOP')
    expect(await answer(port)).toEqual([200, 'open'])
    mortal.process.kill('SIGCONT')
    await decides(port)
    await mortal.stop()
    expect(await answer(port)).toEqual([200, 'open'])
    mortal = await startRedis('--port', String(mortal.port))
    await decides(port)
  }
  await programs.verify('server', server, outlives, 'runs')
})
