import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { builtPackage } from '../support/built.ts'
import { redisCommand } from '../support/redis.ts'

interface Ledger {
  add(entry: object): void
  check(specs: unknown, history: object): { problems: string[] }
}

it('the soak finds nothing wrong in 20 seconds of faults', { timeout: 120_000 }, async () => {
  const built = await builtPackage()
  redisCommand()
  const run = fileURLToPath(new URL('run.mjs', import.meta.url))
  const words = [run, '--minutes', String(20 / 60), '--home', built]
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  expect(stdout + stderr).toContain('\nAll is well.\n')
  expect(status).toBe(0)
  for (const fault of ['freeze', 'kill', 'flush', 'restart']) expect(stdout).toContain(`${fault}: asked again`)
})

it('the ledger of the soak finds one admitted request too many, in Redis and in a process', async () => {
  const load = (name: string): Promise<object> => import(new URL(`${name}.mjs`, import.meta.url).href)
  const { Ledger } = (await load('ledger')) as { Ledger: new () => Ledger }
  const { SPECS } = (await load('limiters')) as { SPECS: unknown }
  const problems = (source: string, admitted: number): string[] => {
    const ledger = new Ledger()
    ledger.add({ limiter: 'gcra', key: '10-0', source, admitted, returned: 0, events: [] })
    return ledger.check(SPECS, { losses: [], changes: [] }).problems
  }
  expect([problems('redis', 30), problems('process 1', 10)]).toEqual([[], []])
  expect([...problems('redis', 31), ...problems('process 1', 11)]).toHaveLength(2)
})
