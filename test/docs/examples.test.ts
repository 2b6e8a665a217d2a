// Runs every example as a reader would: compiled against the built package, in a separate process.
import { type ChildProcess, execFile, spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import { dirname, join } from 'node:path'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { rowStore } from '../../src/extend.ts'
import { storeBehaviours } from '../../src/testing.ts'
import { adapters } from '../support/adapters.ts'
import { builtExamples } from '../support/built-examples.ts'
import { newerNode } from '../support/newer-node.ts'
import { freePort, redisCommand } from '../support/redis.ts'
import { root } from '../support/programs.ts'

const MINUTE = 60_000

let folder: string

beforeAll(async () => {
  folder = await builtExamples()
}, 5 * MINUTE)

/** Runs a program and returns its output. Fails if the program fails or warns. */
function node(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd: folder, env: { ...process.env, ...env } }, (error, stdout, stderr) => {
      if (error === null && stderr === '') resolve(stdout)
      else reject(new Error(`node ${args.join(' ')} failed:\n${stdout}${stderr}`))
    })
  })
}

/** The lines of a request that is admitted, with what the header says of its limits, and the body. */
const admitted = (request: string, limits: string, body: string): string[] => [
  `${request}: 200, RateLimit: ${limits}`,
  `  ${body}`,
]

/** The lines of a request that a limit denies. */
const denied = (request: string, limit: string): string[] => [
  `${request}: 429, RateLimit: "${limit}";r=0, Retry-After: n`,
  `  quota exceeded: ${limit}`,
]

const perApp = [
  ...admitted('GET /', '"burst";r=4, "hour";r=999', 'hello, you have 4 left'),
  ...admitted('GET /', '"burst";r=3, "hour";r=998', 'hello, you have 3 left'),
  ...admitted('POST /login', '"login";r=2', 'welcome'),
  ...admitted('POST /login', '"login";r=1', 'welcome'),
  ...admitted('POST /login', '"login";r=0', 'welcome'),
  ...denied('POST /login', 'login'),
]

/** The dashboard answers strangers with an empty 401. */
const withDashboard = ['GET /limits/: 401', '  ', ...perApp]

/** The output of each example, without times. */
const outputs: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(adapters.map((name) => [name, withDashboard])),
  'graphql-costs': [
    'GET /graphql?query={posts(first:%2060){title}}: 200, RateLimit: "points";r=n',
    '  {"data":{"posts":[{"title":"one"},{"title":"two"},{"title":"three"}]}}',
    'GET /graphql?query={posts(first:%2090){title}}: 200, RateLimit: "points";r=n',
    '  {"data":{"posts":[{"title":"one"},{"title":"two"},{"title":"three"}]}}',
    'GET /graphql?query={posts(first:%20500){title}}: 429, RateLimit: "points";r=n',
    '  quota exceeded: points',
    'GET /graphql?query={posts(first:%20100000000000000000000){title}}: 429, RateLimit: "points";r=n',
    '  quota exceeded: points',
  ],
  dashboard: [
    ...admitted('GET /', '"hourly";r=1', 'hello'),
    ...admitted('GET /', '"hourly";r=0', 'hello'),
    ...denied('GET /', 'hourly'),
    'GET /limits/: 401',
    '  ',
    'POST /limits/reset: 200',
    '  {"isReset":true}',
    ...admitted('GET /', '"hourly";r=1', 'hello'),
  ],
  'log-denials': [
    ...admitted('GET /', '"hourly";r=1', 'hello'),
    ...admitted('GET /', '"hourly";r=0', 'hello'),
    '{"level":30,"limiter":"api","limit":"hourly","key":"127.0.0.1","retryAfter":n,"path":"/","message":"denied"}',
    ...denied('GET /', 'hourly'),
  ],
  'llm-gateway': [
    'request of ann, and what is left afterwards        status denied by  requests    tokens    budget   running',
    'a whole answer of 50 words                            200                  19      4939     19939         2',
    'the same again, from the cache                        200                  18      4939     19939         2',
    'a streamed answer of 100 words                        200                  17      4828     19828         2',
    'the model fails, another one answers                  200                  16      4807     19807         2',
    'all models fail                                       502                  16      4807     19807         2',
    'may use more tokens than the minute has left          429    tokens        16      4807     19807         2',
    'a third one at the same time waits, in vain           429   running        14      2719     17719         0',
    'a third one waits, and the first one hangs up         200                  13      2705     17705         1',
    'the second one hangs up after 20 words            aborted                  13      2705     17705         2',
  ],
  plans: [
    ...admitted('GET /notes', '"reads";r=2', 'done'),
    ...admitted('POST /notes', '"writes";r=0', 'done'),
    ...denied('POST /notes', 'writes'),
    ...admitted('POST /notes', '"writes";r=59', 'done'),
    ...admitted('POST /notes', '"writes";r=58', 'done'),
    'POST /notes: 200',
    '  done',
    ...admitted('GET /notes', '"reads";r=2', 'done'),
  ],
  stacked: [
    ...admitted('GET /documents/1', '"per-user";r=4, "per-document";r=1', 'document 1'),
    ...admitted('GET /documents/1', '"per-user";r=4, "per-document";r=0', 'document 1'),
    ...denied('GET /documents/1', 'per-document'),
    ...admitted('GET /documents/2', '"per-user";r=3, "per-document";r=1', 'document 2'),
  ],
  rules: [
    ...admitted('GET /notes', '"notes";r=4', 'version 1, 4 left'),
    ...admitted('GET /notes', '"notes";r=3', 'version 1, 3 left'),
    'POST /tight: 204',
    '  ',
    ...admitted('GET /notes', '"notes";r=0', 'version 2, 0 left'),
    ...denied('GET /notes', 'notes'),
    'POST /loose: 204',
    '  ',
    ...admitted('GET /notes', '"notes";r=5', 'version 3, 5 left'),
  ],
  'custom-keyer': [
    ...admitted('GET /', '"2-per-1m";r=1', 'counted as tenant acme'),
    ...admitted('GET /', '"2-per-1m";r=1', 'counted as address 127.0.0.1'),
    ...admitted('GET /', '"2-per-1m";r=0', 'counted as address 127.0.0.1'),
    ...denied('GET /', '2-per-1m'),
  ],
  'custom-store': [
    ...admitted('GET /', '"2-per-1m";r=1', 'hello'),
    ...admitted('GET /', '"2-per-1m";r=0', 'hello'),
    ...denied('GET /', '2-per-1m'),
  ],
  postgres: ['400 requests to 4 processes: 100 admitted, 300 denied'],
  sqlite: ['400 requests to 4 processes: 100 admitted, 300 denied'],
  'custom-algorithm': [
    ...admitted('POST /codes', '"codes";r=2', 'a code is on its way'),
    ...admitted('POST /codes', '"codes";r=1', 'a code is on its way'),
    ...admitted('POST /codes', '"codes";r=0', 'a code is on its way'),
    ...denied('POST /codes', 'codes'),
  ],
}

/** Returns a line of output without times, and with problem details shortened. */
function timeless(line: string): string {
  if (line.startsWith('  {"type":')) {
    const problem = JSON.parse(line) as { title: string; 'violated-policies': string[] }
    return `  ${problem.title.toLowerCase()}: ${problem['violated-policies'].join(', ')}`
  }
  // Almost two points return per second.
  const counted = line.replace(/"points";r=\d+/, '"points";r=n')
  return counted
    .replaceAll(/;t=\d+/g, '')
    .replace(/Retry-After: [1-9]\d*$/, 'Retry-After: n')
    .replace(/"retryAfter":\d+(\.\d+)?/, '"retryAfter":n')
}

async function firstLine({ stdout }: ChildProcess): Promise<string> {
  const [data] = (await once(stdout!, 'data')) as [Buffer]
  return data.toString()
}

describe('the examples', { timeout: MINUTE }, () => {
  it('are all tested', async () => {
    const programs = (await readdir(join(root, 'examples'))).filter((each) => each.endsWith('.ts'))
    const others = ['operator.ts', 'outage.ts', 'showcase.ts', 'visits.ts']
    expect(programs.toSorted()).toEqual([...Object.keys(outputs).map((name) => `${name}.ts`), ...others].toSorted())
  })

  it('begin with the command that runs them', async () => {
    for (const name of [...Object.keys(outputs), 'outage', 'showcase']) {
      const lines = (await readFile(join(root, `examples/${name}.ts`), 'utf8')).split('\n')
      expect(lines[0]).toBe(`// Run it: npm run build && npm run build:examples && node dist/examples/${name}.js`)
      // Node removes types, but it does not compile decorators. The showcase starts compiled programs.
      const newer = `// With Node 22.18 or newer also: npm run build && node examples/${name}.ts`
      expect(lines[1]).toBe(['nestjs', 'showcase'].includes(name) ? '//' : newer)
    }
  })

  it('run without a compiler with Node 22.18 or newer', async () => {
    const env = { ...process.env, PORT: '0' }
    const { status, stdout } = spawnSync(newerNode(), ['examples/express.ts', '--once'], {
      cwd: folder,
      env,
      encoding: 'utf8',
    })
    const [, ...lines] = stdout.trimEnd().split('\n')
    expect([status, lines.map(timeless)]).toEqual([0, outputs['express']])
  })

  for (const [name, expected] of Object.entries(outputs)) {
    it(`${name} listens on the given port, sends itself requests and exits`, async () => {
      const port = await freePort()
      const output = await node([`dist/examples/${name}.js`, '--once'], { PORT: String(port) })
      const [address, ...lines] = output.trimEnd().split('\n')
      expect(address).toBe(`listening on http://127.0.0.1:${port}`)
      expect(lines.map(timeless)).toEqual(expected)
    })
  }

  // Most share the code that ends them. These have their own.
  it.each(['express', 'llm-gateway', 'postgres', 'sqlite'])('%s answers until it is stopped', async (name) => {
    const child = spawn(process.execPath, [`dist/examples/${name}.js`], { cwd: folder })
    try {
      const [url] = /http:\S+/.exec(await firstLine(child))!
      for (let i = 0; i < 2; i++) expect([200, 404]).toContain((await fetch(url)).status)
    } finally {
      child.kill()
    }
  })
})

it('custom-algorithm --check runs the suite of `sluice/testing`', { timeout: MINUTE }, async () => {
  const lines = (await node(['dist/examples/custom-algorithm.js', '--check'])).trimEnd().split('\n')
  expect(lines.length).toBeGreaterThan(5)
  expect(lines).toContain('it charges past the limit, and denies until the debt is gone')
})

describe('outage', { timeout: MINUTE }, () => {
  function run(env: NodeJS.ProcessEnv): SpawnSyncReturns<string> {
    return spawnSync(process.execPath, ['dist/examples/outage.js', '--short'], { cwd: folder, env, encoding: 'utf8' })
  }

  it('shows who decides before, during and after the outage, without colours, and exits', () => {
    const { status, stdout, stderr } = run({
      ...process.env,
      PATH: `${dirname(redisCommand())}:${process.env['PATH']}`,
    })
    expect(status).toBe(0)
    expect(stderr.match(/\[SLUICE_[A-Z]+\]/g)).toEqual(['[SLUICE_OUTAGE]', '[SLUICE_RECOVERY]'])
    const events = [...stdout.matchAll(/ s: (.+)$/gm)].map(([, text]) => text)
    const [frozen, thawed] = [events.indexOf('the server is frozen'), events.indexOf('the server continues')]
    expect(frozen).not.toBe(-1)
    expect(events.slice(frozen, thawed)).toContainEqual(expect.stringMatching(/^the store is away: no answer within/))
    expect(events.slice(thawed)).toContain('the store is healthy: the store answers again')
    const modes = [...stdout.matchAll(/ ms {2}(.+)$/gm)].map(([, mode]) => mode)
    expect(modes).toHaveLength(16)
    expect(modes.slice(5, 10)).toEqual(Array(5).fill('this process'))
    expect(modes.at(-1)).toBe('Redis')
    expect(stdout).toMatch(/\nWhile the server was frozen, \d+ decisions waited for it, [\d.]+ ms at most.\n/)
    expect(stdout).not.toContain('\u001B')
  })
})

// The algorithm of the example passes the same suites as the algorithms of the package.
vi.mock(import('../support/harness.ts'), async (original) => ({
  ...(await original()),
  names: () => ['coolDown'],
  exactNames: () => [],
}))
vi.mock(import('../../examples/visits.ts'), () => ({ serve: async (server: Server) => void server.close() }))

describe('custom-algorithm', { timeout: MINUTE }, async () => {
  await import('../../examples/custom-algorithm.ts')
  await import('../algorithms/contract.test.ts')
  await import('../algorithms/adjust.test.ts')
  await import('../algorithms/convert.test.ts')
  await import('../algorithms/lua.test.ts')
})

describe('custom-store', { timeout: MINUTE }, async () => {
  const { mapDatabase } = await import('../../examples/custom-store.ts')
  for (const { name, run } of storeBehaviours((clock) => rowStore(mapDatabase(clock)))) it(name, run)
})
