// What docs/migrating and docs/proxies.md say is what happens. By the language of a block:
//
// - `ts` is a program of ours. It is compiled under strict flags, and run; what it prints is what its comments `// → …` say.
// - `console` shows requests to the server that the program before it has started, and the answers, as in README.md.
// - `js` is a program of before. It is parsed, and no more.
// - `nginx` and `sh` are for other tests, and for readers.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Block, blocksOf, fencesOf, node, Programs, root } from './support/programs.ts'
import { type RedisServer, startRedis } from './support/redis.ts'

const MINUTE = 60_000
const pages = ['proxies.md', ...readdirSync(join(root, 'docs/migrating')).map((name) => `migrating/${name}`)]

function read(page: string): string {
  return readFileSync(join(root, 'docs', page), 'utf8')
}

/** By names that can be those of files. */
const blocks = new Map<string, Block & { readonly page: string }>(
  pages.flatMap((page) =>
    blocksOf(read(page)).map((block) => [`${page.replace(/\W/g, '-')}-${block.line}`, { page, ...block }] as const),
  ),
)
let redis: RedisServer
let programs: Programs

beforeAll(async () => {
  redis = await startRedis()
  programs = await Programs.compile(new Map([...blocks].filter(([, { language }]) => language === 'ts')), redis.url)
}, 2 * MINUTE)

afterAll(async () => {
  await redis.stop()
  await programs.remove()
})

async function verify(name: string, block: Block): Promise<void> {
  if (block.language === 'ts') return programs.verify(name, block, tellsOfItsLimit)
  if (block.language === 'js') return verifySyntax(block.code)
  expect(['nginx', 'sh']).toContain(block.language)
}

async function tellsOfItsLimit(port: number): Promise<void> {
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

/** The cells of the tables that have these headings. */
function rowsOf(page: string): string[][] {
  const rows = [...read(page).matchAll(/^\|(.*)\|$/gm)].map(([, row]) => row!.split(' | ').map((cell) => cell.trim()))
  const start = rows.findIndex(([there, here]) => there === 'there' && here === 'here')
  return start === -1 ? [] : rows.slice(start + 2)
}

describe.concurrent('the pages', { timeout: MINUTE }, () => {
  for (const [name, block] of blocks)
    it(`${block.page}, line ${block.line}: ${block.language}`, () => verify(name, block))

  it.for(pages)('%s has no block that is passed over, and no dead link', (page, { expect }) => {
    expect(read(page).match(/^\s*(```|~~~)/gm) ?? []).toHaveLength(fencesOf(blocksOf(read(page))))
    const targets = [...read(page).matchAll(/\]\((?!https:)([^)#]+)[^)]*\)/g)].map(([, target]) => target!)
    expect(targets.filter((each) => !existsSync(join(root, 'docs', dirname(page), each)))).toEqual([])
  })

  it.for(pages.slice(1))('%s has before, after, a table and what gets better', (page, { expect }) => {
    const languages = blocksOf(read(page)).map(({ language }) => language)
    expect(languages.slice(0, 2)).toEqual(['js', 'ts'])
    expect(rowsOf(page).length).toBeGreaterThan(10)
    expect(rowsOf(page).filter((row) => row.length !== 2 || row.includes(''))).toEqual([])
    expect(read(page)).toMatch(/^## What gets better$/m)
  })
})
