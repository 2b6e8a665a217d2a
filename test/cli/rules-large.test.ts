import { expect, it } from 'vitest'
import { commandLine } from '../support/command-line.ts'

const cli = commandLine()

it('sluice rules check compares the values of a large document in seconds', { timeout: 60_000 }, async () => {
  const letters = (seed: number): string =>
    Array.from({ length: 32 }, (_, i) => String.fromCharCode(97 + ((seed * 7919 + i * i * seed) % 26))).join('')
  const policies = Array.from({ length: 8000 }, (_, i) => ({
    name: `p${i}`,
    match: { attributes: { [`a${i % 10}`]: letters(i) } },
    key: 'ip',
    limits: [{ quota: 1, window: '1m' }],
  }))
  const document = cli.file('many.json', JSON.stringify({ policies, otherwise: 'allow' }))
  const before = process.cpuUsage()
  expect(await cli.run(['rules', 'check', document])).toMatchObject({ code: 0 })
  // The time of the processor does not count other work on the machine.
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(5000)
})
