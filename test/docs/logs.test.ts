// Runs every `npx sluice replay` and `npx sluice suggest` of the documents on generated logs.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CommandLine } from '../support/command-line.ts'
import { clfLine } from '../support/logs.ts'
import { pages, readPage } from '../support/pages.ts'
import { blocksOf } from '../support/programs.ts'

let program: string
const cli = new CommandLine()
beforeAll(async () => {
  program = await cli.program()
  const log = Array.from({ length: 200 }, (_, i) => clfLine(1.7e12 + i * 500, `192.0.2.${i % 3}`, '/login')).join('\n')
  for (const name of ['access.log', 'access.log.1']) cli.file(name, log)
  cli.file('access.log.2.gz', gzipSync(log))
  cli.file('rules.yaml', 'policies:\n  - name: all\n    key: ip\n    limits:\n      - { quota: 5, window: 1m }\n')
}, 60_000)
afterAll(() => cli.remove())

const commands = pages.flatMap((page) =>
  blocksOf(readPage(page))
    .filter(({ language }) => language === 'sh')
    .flatMap(({ code }) => code.split('\n').filter((line) => /^npx sluice (replay|suggest) /.test(line))),
)

it('the documents have commands for logs', () => {
  expect(commands.length).toBeGreaterThan(6)
})

it.each(commands)('%s', (command) => {
  const line = command.replace('npx sluice', `"${process.execPath}" "${program}"`)
  const out = execFileSync('sh', ['-c', line], { cwd: cli.home, encoding: 'utf8' })
  expect(out).toMatch(/\d requests of \d|"requests": \d/)
  if (command.includes('--html')) expect(existsSync(join(cli.home, 'report.html'))).toBe(true)
})
