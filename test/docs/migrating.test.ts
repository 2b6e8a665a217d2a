// Runs the apps of the pages in docs/migrating: the first block of a page with the package that it leaves, the second with sluice.
// Both get the requests in the first column of the page's table. The other columns must say what happened:
//
// - the statuses, and of the last response the headers that report a limit; of a denial also the type of its body,
// - what changes: `nothing` if both did the same, `headers …` if statuses and `Retry-After` are the same, else a text.
//
// `SLUICE_RECORD=migrating npx vitest run test/docs/migrating.test.ts` writes the columns in the middle.
import { type ChildProcess, fork } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { transform } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import peers from '../../bench/package.json' with { type: 'json' }
import { buildInto } from '../support/built.ts'
import { pages, readPage, type Row, rowsOf, writePage } from '../support/pages.ts'
import { type Block, blocksOf, portOf, preload, root } from '../support/programs.ts'
import { upstashForAll } from '../support/redis-tests.ts'
import { endProcess } from '../support/server-process.ts'

const guides = pages.filter((page) => page.startsWith('docs/migrating/'))
const DATE = '2026-11-23T12:00:00Z'
const ON_REDIS = 'docs/migrating/upstash-ratelimit.md'

const redis = upstashForAll()
let folder: string

beforeAll(async () => {
  // Here, programs find the dependencies, and `sluice` by the name of the package that they are in.
  const cache = join(root, 'node_modules', '.cache')
  await mkdir(cache, { recursive: true })
  folder = await mkdtemp(join(cache, 'sluice-apps-'))
  await copyFile(join(root, 'package.json'), join(folder, 'package.json'))
  await writeFile(join(folder, 'preload.mjs'), preload)
  await buildInto(folder)
})

afterAll(() => rm(folder, { recursive: true, force: true }))

/** Starts a block of a page as a program. */
async function start(name: string, { code }: Block): Promise<ChildProcess> {
  const file = join(folder, `${name}.mjs`)
  const options = { loader: 'ts', tsconfigRaw: { compilerOptions: { experimentalDecorators: true } } } as const
  const program = await transform(code.replaceAll('redis://localhost:6379', redis.server.url), options)
  await writeFile(file, program.code)
  const upstash = { UPSTASH_REDIS_REST_URL: redis.proxy.url, UPSTASH_REDIS_REST_TOKEN: redis.proxy.token }
  const env = { ...process.env, ...upstash, DATE }
  const execArgv = ['--disable-warning=ExperimentalWarning', '--import', join(folder, 'preload.mjs')]
  return fork(file, { cwd: folder, execArgv, env, stdio: 'pipe' })
}

/** Returns the rows of the table of a page: the requests, what the page says of both apps, and what changes. */
const requestsOn = (page: string): Row[] => rowsOf(page, 'requests', 'before', 'after', 'what changes')

interface Requests {
  readonly count: number
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

function requestsOf(text: string): Requests {
  const match = /^(?:(\d+) × )?`(GET|POST) (\S+)` from ([\d.]+)(?: with `([\w-]+): (.+)`)?$/.exec(text)
  if (match === null) throw new Error(`These requests are not known here: ${text}`)
  const [, count = '1', method, path, address, name, value] = match
  const headers = { 'X-Forwarded-For': address!, 'CF-Connecting-IP': address!, 'X-Real-IP': address! }
  return {
    count: Number(count),
    method: method!,
    path: path!,
    headers: name === undefined ? headers : { ...headers, [name]: value! },
  }
}

/** What an app answered to the requests of a row. */
interface Outcome {
  readonly statuses: string
  readonly retryAfter: string | null
  readonly cell: string
}

async function send(port: number, { count, method, path, headers }: Requests, isTimed: boolean): Promise<Outcome> {
  const statuses: [status: number, count: number][] = []
  let last!: Response
  for (let i = 0; i < count; i++) {
    last = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers })
    await last.text()
    const run = statuses.at(-1)
    if (run?.[0] === last.status) run[1]++
    else statuses.push([last.status, 1])
  }
  const reports = [...last.headers].filter(
    ([name]) => /rate-?limit|^retry-after$/.test(name) || (name === 'content-type' && last.status === 429),
  )
  const lines = reports.map(([name, value]) => `\`${name}: ${isTimed ? value : timeless(name, value)}\``)
  const counted = statuses.map(([status, times]) => (times === 1 ? String(status) : `${times} × ${status}`)).join(', ')
  return { statuses: counted, retryAfter: last.headers.get('retry-after'), cell: [counted, ...lines].join('<br>') }
}

/** Replaces times, which depend on the clock of a Redis server. */
function timeless(name: string, value: string): string {
  if (/reset$|^retry-after$/.test(name)) return 'n'
  return value.replaceAll(/;t=\d+/g, ';t=n')
}

/** Sends the requests of all rows to an app, in their order. */
async function outcomesOf(name: string, block: Block, rows: readonly Row[], isTimed: boolean): Promise<Outcome[]> {
  const child = await start(name, block)
  try {
    const port = await portOf(child)
    if (!isTimed) await earlyInWindow()
    const outcomes: Outcome[] = []
    for (const { cells } of rows) outcomes.push(await send(port, requestsOf(cells[0]!), isTimed))
    return outcomes
  } finally {
    await endProcess(child)
  }
}

/** Resolves when a window of ten seconds by the clock has more than four of them left. */
async function earlyInWindow(): Promise<void> {
  const passed = Date.now() % 10_000
  if (passed > 6000) await pause(10_010 - passed)
}

/** Returns the word that the last cell of a row must start with. */
function kindOf(before: Outcome, after: Outcome): 'nothing' | 'headers' | 'a text' {
  if (before.cell === after.cell) return 'nothing'
  const isSame = before.statuses === after.statuses && before.retryAfter === after.retryAfter
  return isSame ? 'headers' : 'a text'
}

function saidKind(change: string): string {
  if (change === 'nothing') return 'nothing'
  return change.startsWith('headers: ') ? 'headers' : change.length > 10 ? 'a text' : 'too little'
}

async function record(
  page: string,
  rows: readonly Row[],
  before: readonly Outcome[],
  after: readonly Outcome[],
): Promise<void> {
  let text = readPage(page)
  for (const [i, { line, cells }] of rows.entries()) {
    text = text.replace(line, () => `| ${cells[0]} | ${before[i]!.cell} | ${after[i]!.cell} | ${cells[3]} |`)
  }
  await writePage(page, text)
}

describe.concurrent('the apps of the migration pages', { timeout: 60_000 }, () => {
  it.for(guides)('%s: both answer as its table says', async (page, { expect }) => {
    const rows = requestsOn(page)
    expect(rows.length).toBeGreaterThan(3)
    const [old, current] = blocksOf(readPage(page))
    expect([old!.language, current!.language]).toEqual(['js', 'ts'])
    const isTimed = page !== ON_REDIS
    const name = page.replace(/\W/g, '-')
    const [before, after] = await Promise.all([
      outcomesOf(`${name}-before`, old!, rows, isTimed),
      outcomesOf(`${name}-after`, current!, rows, isTimed),
    ])
    if (process.env['SLUICE_RECORD'] === 'migrating') await record(page, rows, before, after)
    const heard = rows.map(({ cells }, i) => [cells[0], before[i]!.cell, after[i]!.cell])
    expect(requestsOn(page).map(({ cells }) => cells.slice(0, 3))).toEqual(heard)
    const changes = rows.map(({ cells: [requests, , , change] }) => [requests, saidKind(change!)])
    expect(changes).toEqual(rows.map(({ cells: [requests] }, i) => [requests, kindOf(before[i]!, after[i]!)]))
  })

  const programs = guides.flatMap((page) =>
    blocksOf(readPage(page))
      .filter(({ language, code }) => language === 'js' && code.includes('// →'))
      .map((block) => [page, block] as const),
  )
  it.for(programs)('%s: the program before prints what it says', async ([page, block], { expect }) => {
    const child = await start(`${page.replace(/\W/g, '-')}-${block.line}`, block)
    let [output, errors] = ['', '']
    child.stdout!.on('data', (data: Buffer) => (output += data.toString()))
    child.stderr!.on('data', (data: Buffer) => (errors += data.toString()))
    // A timer of the package may keep the process alive for the length of a window.
    const promised = [...block.code.matchAll(/\/\/ → (.*)$/gm)].map(([, line]) => line)
    for (let i = 0; i < 400 && output.split('\n').length <= promised.length && child.exitCode === null; i++)
      await pause(25)
    child.kill('SIGKILL')
    expect(errors).toBe('')
    expect(output.split('\n').slice(0, -1)).toEqual(promised)
  })

  it('use packages of the versions that the pages, the tests and the benchmarks name', () => {
    const named = guides.map((page) => /^Checked against (\S+) (\d\S*)\.$/m.exec(readPage(page))?.slice(1))
    expect(named).not.toContain(undefined)
    const installed: Readonly<Record<string, string>> = manifest.devDependencies
    const compared: Readonly<Record<string, string>> = peers.devDependencies
    for (const [name, version] of named as [string, string][]) {
      expect([name, installed[name]]).toEqual([name, version])
      expect([name, compared[name] ?? version]).toEqual([name, version])
    }
  })
})
