// ARCHITECTURE.md lists the files that a request passes. They are those whose functions run.
import { readFileSync } from 'node:fs'
import express from 'express'
import { expect, test } from 'vitest'
import { byIP, rateLimit } from '../../adapters/express/index.ts'
import { memoryStore, perMinute } from '../../src/index.ts'
import type { Charge } from '../../src/extend.ts'
import { createLimiter } from '../../src/limiter/limiter.ts'
import { functionsIn } from '../support/functions.ts'
import { ask, serve } from '../support/http.ts'

const root = new URL('../../', import.meta.url).pathname
const architecture = readFileSync(`${root}ARCHITECTURE.md`, 'utf8')

/** Returns the files of the package whose functions run during `work`. */
async function filesIn(work: () => unknown): Promise<string[]> {
  return [...new Set((await functionsIn(work)).map(({ file }) => file))]
}

/** The files that a section of ARCHITECTURE.md numbers, and those that it names as helpers. */
function walkIn(heading: string): { files: string[]; helpers: string[] } {
  const section = architecture.split(`## ${heading}\n`)[1]!.split('\n## ')[0]!
  const pathsIn = (text: string): string[] =>
    Array.from(text.matchAll(/`((?:src|adapters)\/[\w/.-]+\.ts)`/g), ([, path]) => path!)
  const numbered = section.split('\n').filter((line) => /^\d+\. /.test(line))
  const helpers = section.split('\n').filter((line) => line.startsWith('Helpers: '))
  return { files: pathsIn(numbered.join('\n')), helpers: pathsIn(helpers.join('\n')) }
}

test('an admitted request of Express in memory passes the files that ARCHITECTURE.md lists, 14 and helpers', async () => {
  const app = express()
  app.use(rateLimit({ keyer: byIP, limits: perMinute(1_000_000) }))
  app.get('/', (_request, response) => void response.send('ok'))
  const server = await serve(app)
  try {
    // The first thousand requests are checked for mistakes, and then one of every 16. A sweep comes after one of every 16, too.
    for (let i = 0; i < 1010; i++) await ask(server)
    const { files, helpers } = walkIn('A request in memory')
    expect(files.length).toBeLessThanOrEqual(14)
    expect(helpers.every((path) => path.startsWith('src/util/'))).toBe(true)
    const passed = await filesIn(() => ask(server))
    expect(passed.toSorted()).toEqual([...files, ...helpers].toSorted())
  } finally {
    await server.close()
  }
})

test('a charge in memory passes the files that ARCHITECTURE.md lists, five and helpers', async () => {
  const store = memoryStore()
  const limiter = createLimiter({ keyer: () => 'k', limits: perMinute(1_000_000), store })
  const charge = (limiter.consume(undefined).limits[0] as Charge).copy()
  const { files, helpers } = walkIn('A charge in memory')
  expect(new Set(files).size).toBeLessThanOrEqual(5)
  const reply = { answered: () => undefined, failed: () => undefined }
  const passed = await filesIn(() => store.run({ kind: 'consume', charges: [charge], fresh: false }, reply))
  expect(charge.allowed).toBe(true)
  expect(passed.toSorted()).toEqual([...new Set([...files, ...helpers])].toSorted())
})
