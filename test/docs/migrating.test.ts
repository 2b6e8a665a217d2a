// Checks docs/migrating, docs/proxies.md, docs/redis.md and docs/rules.md. The language of a code block decides how:
//
// - `ts` is a program with this package. It is compiled with strict flags and run. It must print what its comments `// → …` say.
// - `console` shows requests to the server of the block before it, and the responses, as in README.md.
// - `js` is the program before the migration. It is only parsed.
// - `json` and `yaml` are documents of rules without mistakes.
// - `sql` sets up the database of the programs of its page.
// - `nginx`, `sh` and `text` are checked by other tests, or not at all.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { checkRules } from '../../src/rules/index.ts'
import { parseText } from '../../src/rules/text/text.ts'
import { type Block, blocksOf, fencesOf, node, Programs, root } from '../support/programs.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

const MINUTE = 60_000
const guides = readdirSync(join(root, 'docs/migrating')).map((name) => `migrating/${name}`)
const pages = ['proxies.md', 'redis.md', 'rules.md', ...guides]

function read(page: string): string {
  return readFileSync(join(root, 'docs', page), 'utf8')
}

/** The blocks by names that can be file names. */
const blocks = new Map<string, Block & { readonly page: string }>(
  pages.flatMap((page) =>
    blocksOf(read(page)).map((block) => [`${page.replace(/\W/g, '-')}-${block.line}`, { page, ...block }] as const),
  ),
)
let redis: RedisServer
let postgres: PostgresServer
let programs: Programs

beforeAll(async () => {
  ;[redis, postgres] = await Promise.all([startRedis(), startPostgres()])
  const database = new Client(postgres.url)
  await database.connect()
  for (const { code } of written('sql').values()) await database.query(code)
  await database.end()
  programs = await Programs.compile(written('ts'), redis.url, postgres.url)
}, 2 * MINUTE)

/** Returns the blocks in a language. */
function written(wanted: string): Map<string, Block> {
  return new Map([...blocks].filter(([, { language }]) => language === wanted))
}

afterAll(async () => {
  await Promise.all([redis.stop(), postgres.remove()])
  await programs.remove()
})

async function verify(name: string, block: Block): Promise<void> {
  if (block.language === 'ts') return programs.verify(name, block, sendsRateLimit)
  if (block.language === 'json' || block.language === 'yaml') return verifyRules(block.code, block.language)
  if (block.language === 'js') return verifySyntax(block.code)
  expect(['nginx', 'sh', 'sql', 'text']).toContain(block.language)
}

async function verifyRules(text: string, format: 'json' | 'yaml'): Promise<void> {
  const parsed = await parseText(text, format)
  expect('value' in parsed && checkRules(parsed.value)).toEqual([])
}

async function sendsRateLimit(port: number): Promise<void> {
  const { headers } = await fetch(`http://127.0.0.1:${port}/`)
  expect(headers.get('ratelimit')).not.toBeNull()
}

async function verifySyntax(code: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-pages-'))
  try {
    await writeFile(join(folder, 'before.mjs'), code)
    expect(await node(folder, '--check', 'before.mjs')).toBe('')
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Returns the cells of the tables with these headings. */
function rowsOf(page: string): string[][] {
  const rows = [...read(page).matchAll(/^\|(.*)\|$/gm)].map(([, row]) => row!.split(' | ').map((cell) => cell.trim()))
  const start = rows.findIndex(([there, here]) => there === 'there' && here === 'here')
  return start === -1 ? [] : rows.slice(start + 2)
}

describe.concurrent('the pages', { timeout: MINUTE }, () => {
  for (const [name, block] of blocks)
    it(`${block.page}, line ${block.line}: ${block.language}`, () => verify(name, block))

  it.for(pages)('%s has no unchecked block and no dead link', (page, { expect }) => {
    expect(read(page).match(/^\s*(```|~~~)/gm) ?? []).toHaveLength(fencesOf(blocksOf(read(page))))
    const targets = [...read(page).matchAll(/\]\((?!https:)([^)#]+)[^)]*\)/g)].map(([, target]) => target!)
    expect(targets.filter((each) => !existsSync(join(root, 'docs', dirname(page), each)))).toEqual([])
  })

  it.for(guides)('%s has the code before and after, a table, and what gets better', (page, { expect }) => {
    const languages = blocksOf(read(page)).map(({ language }) => language)
    expect(languages.slice(0, 2)).toEqual(['js', 'ts'])
    expect(rowsOf(page).length).toBeGreaterThan(10)
    expect(rowsOf(page).filter((row) => row.length !== 2 || row.includes(''))).toEqual([])
    expect(read(page)).toMatch(/^## What gets better$/m)
  })
})

describe('servers on a Redis that does not answer', { timeout: MINUTE }, () => {
  /** Returns the server of a page that uses Redis. */
  const serverIn = (page: string): Block => {
    const { transcript: _, ...block } = blocksOf(read(page)).find(
      ({ code }) => code.includes('redisStore(') && code.includes('.listen('),
    )!
    return block
  }
  const servers = { 'README.md': serverIn('../README.md'), 'redis.md': serverIn('redis.md') }
  let mortal: RedisServer
  let itsPort: number
  let programs: Programs

  beforeAll(async () => {
    mortal = await startRedis()
    itsPort = mortal.port
    programs = await Programs.compile(new Map(Object.entries(servers)), mortal.url)
  }, 2 * MINUTE)

  afterAll(async () => {
    await mortal.stop()
    await programs.remove()
  })

  it.each([
    ['README.md', 'hello', 'hello'],
    ['redis.md', 'decided', 'open'],
  ] as const)('%s: answer soon all the same, and outlive it', async (page, decided, without) => {
    async function answer(port: number): Promise<[status: number, body: string]> {
      const response = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(2000) })
      return [response.status, await response.text()]
    }
    const outlives = async (port: number): Promise<void> => {
      expect(await answer(port)).toEqual([200, decided])
      mortal.process.kill('SIGSTOP')
      expect(await answer(port)).toEqual([200, without])
      mortal.process.kill('SIGCONT')
      await vi.waitFor(async () => expect(await answer(port)).toEqual([200, decided]), 10_000)
      await mortal.stop()
      expect(await answer(port)).toEqual([200, without])
      mortal = await startRedis('--port', String(itsPort))
      await vi.waitFor(async () => expect(await answer(port)).toEqual([200, decided]), 10_000)
    }
    await programs.verify(page, servers[page], outlives, 'runs')
  })
})
