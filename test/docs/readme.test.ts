// Checks README.md. The language of a code block decides how:
//
// - `ts` is a program. It is compiled with strict flags and run. It must print what its comments `// → …` say, in order.
// - `console` shows requests to the server of the block before it, and the responses: the status, the headers that are shown,
//   and the body if it is shown. The server listens on a free port and its clock does not move. A Redis at the usual port is
//   replaced by one that the test starts.
// - `sh` contains npm commands: scripts of package.json, or the installation of this package.
// - `json` is a limit.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { limit, type LimitInput } from 'sluice'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { builtIn } from '../../src/algorithms/index.ts'
import { rowsFor, tableOfAlgorithms } from '../support/algorithm-table.ts'
import { type Block, blocksOf, fencesOf, Programs, root } from '../support/programs.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

const MINUTE = 60_000
const readme = readFileSync(join(root, 'README.md'), 'utf8')

let redis: RedisServer
let programs: Programs

/** Throws if a block does not do what it shows. */
async function verify(block: Block, document: string): Promise<void> {
  if (block.language === 'ts') return programs.verify(`${document}-${block.line}`, block)
  if (block.language === 'sh') return verifyCommands(block.code)
  expect(block.language).toBe('json')
  limit(JSON.parse(block.code) as LimitInput)
}

function verifyCommands(code: string): void {
  const commands = code.split(/&&|\n/).map((each) => each.replace(/#.*/, '').trim())
  const scripts = Object.keys(manifest.scripts)
  const known = ['npm ci', 'npm start', 'npm test', `npm install ${manifest.name}`]
  const runnable = [...known, ...scripts.map((name) => `npm run ${name}`)]
  expect(scripts).toEqual(expect.arrayContaining(['start', 'test']))
  expect(runnable).toEqual(expect.arrayContaining(commands.filter((each) => each !== '')))
}

/** Returns the fragment of a heading, as GitHub makes it. */
function fragment(heading: string): string {
  return `#${heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')}`
}

function fragments(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => fragment(heading!))
}

/** Returns links without a target. */
function deadLinks(markdown: string): string[] {
  const targets = [...markdown.matchAll(/\]\(([^)]*)\)/g)].map(([, target]) => target!)
  return targets.filter((target) => {
    const [file, heading] = target.split('#') as [string, string?]
    if (file !== '' && !existsSync(join(root, file))) return true
    const text = file === '' ? markdown : readFileSync(join(root, file), 'utf8')
    return heading !== undefined && !fragments(text).includes(`#${heading}`)
  })
}

/** Returns the codes of all errors. */
function errorCodes(): string[] {
  const source = readFileSync(join(root, 'src/util/errors.ts'), 'utf8')
  return [...source.matchAll(/^ {2}\| '([A-Z_]+)'$/gm)].map(([, code]) => code!)
}

/** Returns the codes of all warnings in the sources. */
function warningCodes(): string[] {
  const files = ['src', 'adapters'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(root, folder, file)),
  )
  const sources = files.filter((file) => file.endsWith('.ts')).map((file) => readFileSync(file, 'utf8'))
  return [...new Set(sources.flatMap((source) => source.match(/\bSLUICE_[A-Z_]+/g) ?? []))].toSorted()
}

const blocks = blocksOf(readme)

const HTTP = "import { createServer } from 'node:http'\n"
const SERVER = `${HTTP}createServer((_, response) => void response.setHeader('RateLimit', 'a').end('b')).listen(3000)\n`

/** A block for each kind of mistake in a README. */
const mistakes: Readonly<Record<string, Omit<Block, 'line'>>> = {
  'a type that does not fit': { language: 'ts', code: "import { perSecond } from 'sluice'\nperSecond('10')\n" },
  'a name that does not exist': { language: 'ts', code: "import { memoryShop } from 'sluice'\n" },
  'a different output': { language: 'ts', code: 'console.log(1 + 1) // → 3\n' },
  'an output that is not on the page': { language: 'ts', code: 'console.log(1 + 1)\n' },
  'a program that throws': { language: 'ts', code: "import { perSecond } from 'sluice'\nperSecond(0)\n" },
  'a server that does not start': { language: 'ts', code: `${HTTP}throw new Error(String(createServer().listen))\n` },
  'a server without a transcript': { language: 'ts', code: SERVER },
  'a different status': {
    language: 'ts',
    code: SERVER,
    transcript: '$ curl -i http://localhost:3000/\nHTTP/1.1 429 Too Many Requests\n',
  },
  'a different header': {
    language: 'ts',
    code: SERVER,
    transcript: '$ curl -i http://localhost:3000/\nHTTP/1.1 200 OK\nRateLimit: b\n',
  },
  'a different body': { language: 'ts', code: SERVER, transcript: '$ curl http://localhost:3000/\na\n' },
  'a script that does not exist': { language: 'sh', code: 'npm ci && npm run nothing\n' },
  'a different package': { language: 'sh', code: 'npm install sluiced\n' },
  'a wrong limit': { language: 'json', code: '{ "algorithm": "gcra", "quota": 100, "window": "1 fortnight" }' },
  'an unchecked language': { language: 'js', code: 'anything()\n' },
}
const wrong = Object.values(mistakes).map((each, i): Block => Object.assign(each, { line: i + 1 }))

beforeAll(async () => {
  redis = await startRedis()
  const named = Object.entries({ readme: blocks, wrong }).flatMap(([document, some]) =>
    some.filter(({ language }) => language === 'ts').map((block) => [`${document}-${block.line}`, block] as const),
  )
  programs = await Programs.compile(new Map(named), redis.url)
}, 2 * MINUTE)

afterAll(async () => {
  await redis.stop()
  await programs.remove()
})

describe.concurrent('README.md', { timeout: MINUTE }, () => {
  for (const block of blocks) it(`line ${block.line}: ${block.language}`, () => verify(block, 'readme'))

  it('charges a chunked upload for the maximum, then for its size', async () => {
    const { transcript: _, ...block } = blocks.find(({ code }) => code.includes("get('transfer-encoding')"))!
    await programs.verify(`readme-${block.line}`, block, async (port) => {
      const left = async (body: string | ReadableStream): Promise<number> => {
        const init = { method: 'POST', body, duplex: 'half' } as const
        const response = await fetch(`http://127.0.0.1:${port}/files`, init)
        await response.text()
        return Number(/"bytes";r=(\d+)/.exec(response.headers.get('ratelimit')!)?.[1])
      }
      expect(await left(new Blob(['chunk']).stream())).toBe(900_000)
      expect(await left('whole')).toBe(999_990)
    })
  })

  it('has no unchecked block', () => {
    expect(readme.match(/^\s*(```|~~~)/gm)).toHaveLength(fencesOf(blocks))
  })

  it('has no dead links', () => expect(deadLinks(readme)).toEqual([]))

  it('lists every error', () => {
    const rows = [...readme.matchAll(/^\| `((?!SLUICE_)[A-Z_]+)` .*\|$/gm)].map(([, code]) => code!)
    expect(rows.toSorted()).toEqual(errorCodes().toSorted())
  })

  it('lists every warning', () => {
    const rows = [...readme.matchAll(/^\| `(SLUICE_\w+)` .*\|$/gm)].map(([, code]) => code!)
    expect(rows.toSorted()).toEqual(warningCodes())
  })

  it('lists every algorithm and the size of its state', () => {
    expect(tableOfAlgorithms(readme)).toEqual(rowsFor(builtIn))
  })
})

describe.concurrent('the checks of README.md find', { timeout: MINUTE }, () => {
  for (const [i, what] of Object.keys(mistakes).entries()) {
    it(what, () => expect(verify(wrong[i]!, 'wrong')).rejects.toThrow())
  }

  it('a dead link', () => {
    const here = '# A heading\n[here](#a-heading) [there](#elsewhere)'
    const files = '[file](README.md) [part](README.md#warnings) [none](nowhere.md) [no part](README.md#nothing)'
    expect(deadLinks(here)).toEqual(['#elsewhere'])
    expect(deadLinks(files)).toEqual(['nowhere.md', 'README.md#nothing'])
  })
})
