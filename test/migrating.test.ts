// What docs/migrating and docs/proxies.md say is what happens. By the language of a block:
//
// - `ts` is a program of ours. It is compiled under strict flags, and run; what it prints is what its comments `// → …` say.
// - `console` shows requests to the server that the program before it has started, and the answers, as in README.md.
// - `js` is a program of before. It is parsed, and no more.
// - `nginx` and `sh` are for other tests, and for readers.
import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from './support/redis.ts'

const MINUTE = 60_000
const root = fileURLToPath(new URL('..', import.meta.url))
const pages = ['proxies.md', ...readdirSync(join(root, 'docs/migrating')).map((name) => `migrating/${name}`)]

interface Block {
  /** Unique, and a name for a file. */
  readonly name: string
  readonly page: string
  readonly language: string
  /** The line of its first line of code, from 1. */
  readonly line: number
  readonly code: string
  /** Of a program that listens: what to ask it, and what it answers. */
  transcript?: string
}

function read(page: string): string {
  return readFileSync(join(root, 'docs', page), 'utf8')
}

function blocksOf(page: string): Block[] {
  const blocks: Block[] = []
  const markdown = read(page)
  for (const { 1: language = '', 2: code = '', index } of markdown.matchAll(/^```(.*)\n([^]*?)^```$/gm)) {
    const line = markdown.slice(0, index).split('\n').length + 1
    const program = blocks.at(-1)
    const name = `${page.replace(/\W/g, '-')}-${line}`
    if (language === 'console' && program?.language === 'ts') program.transcript = code
    else blocks.push({ name, page, language, line, code })
  }
  return blocks
}

const blocks = pages.flatMap(blocksOf)
let folder: string
let redis: RedisServer
let complaints: string

const strict = {
  extends: '../tsconfig.json',
  compilerOptions: {
    noEmit: false,
    declaration: false,
    isolatedDeclarations: false,
    noUnusedLocals: false,
    noUncheckedIndexedAccess: true,
    noPropertyAccessFromIndexSignature: true,
    noImplicitReturns: true,
    rootDir: '.',
    outDir: '../dist/pages',
  },
  include: ['.'],
}

// Servers listen on a free port and tell which; from then on their clock stands still.
const preload = `
  import { Server } from 'node:net'
  const { listen } = Server.prototype
  Server.prototype.listen = function listenAnywhere(...args) {
    const now = performance.now()
    performance.now = () => now
    process.on('disconnect', () => process.exit())
    this.once('listening', () => process.send(this.address().port))
    return listen.call(this, { host: '127.0.0.1', port: 0 }, args.find((each) => typeof each === 'function'))
  }`

/** Runs a program of Node's; answers what it wrote, however it ended. */
function node(...args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: folder }, (_error, stdout, stderr) => resolve(stdout + stderr))
  })
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-pages-'))
  redis = await startRedis()
  for (const part of ['src', 'adapters', 'package.json', 'tsconfig.json', 'tsconfig.build.json']) {
    await cp(join(root, part), join(folder, part), { recursive: true })
  }
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
  await mkdir(join(folder, 'pages'))
  for (const { name, language, line, code } of blocks) {
    if (language === 'js') await writeFile(join(folder, `${name}.mjs`), code)
    if (language !== 'ts') continue
    const program = code.replaceAll('redis://localhost:6379', redis.url)
    await writeFile(join(folder, 'pages', `${name}.ts`), '\n'.repeat(line - 1) + program)
  }
  await writeFile(join(folder, 'pages', 'tsconfig.json'), JSON.stringify(strict))
  await writeFile(join(folder, 'preload.mjs'), preload)
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  expect(await node(tsc, '--pretty', 'false', '-p', 'tsconfig.build.json')).toBe('')
  complaints = await node(tsc, '--pretty', 'false', '-p', 'pages')
}, 2 * MINUTE)

afterAll(async () => {
  await redis.stop()
  await rm(folder, { recursive: true, force: true })
})

async function verify(block: Block): Promise<void> {
  if (block.language === 'ts') return verifyProgram(block)
  if (block.language === 'js') return expect(await node('--check', `${block.name}.mjs`)).toBe('')
  expect(['nginx', 'sh']).toContain(block.language)
}

async function verifyProgram({ name, code, transcript }: Block): Promise<void> {
  expect(complaints.split('\n').filter((each) => each.startsWith(`pages/${name}.ts`))).toEqual([])
  const execArgv = ['--import', join(folder, 'preload.mjs')]
  const child = fork(join(folder, 'dist', 'pages', `${name}.js`), { execArgv, stdio: 'pipe' })
  try {
    if (code.includes('.listen(')) await verifyServer(child, transcript)
    else await verifyOutput(child, code)
  } finally {
    child.kill('SIGKILL')
  }
}

async function verifyOutput(child: ChildProcess, code: string): Promise<void> {
  const [out, errors] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')])
  expect(errors).toBe('')
  const promised = [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, line]) => line)
  expect(out.split('\n').slice(0, -1)).toEqual(promised)
}

/** A server that shows no answers has at least to answer, and to tell of its limit. */
async function verifyServer(child: ChildProcess, transcript = '$ curl http://localhost:3000/'): Promise<void> {
  const errors = text(child.stderr!)
  const [port] = (await Promise.race([once(child, 'message'), once(child, 'exit')])) as [number]
  if (child.exitCode !== null) throw new Error(`It did not start:\n${await errors}`)
  for (const exchange of transcript.split(/^\$ /m).slice(1)) await verifyExchange(exchange, port)
}

async function verifyExchange(exchange: string, port: number): Promise<void> {
  const [command = '', ...lines] = exchange.trimEnd().split('\n')
  const url = /http:\/\/localhost:3000(\S*)/.exec(command)![1]!
  const headers = [...command.matchAll(/-H '([^:]+): ([^']*)'/g)].map(
    ([, name, value]) => [name!, value!] as [string, string],
  )
  const method = / -X (\w+)/.exec(command)?.[1] ?? 'GET'
  const response = await fetch(`http://127.0.0.1:${port}${url}`, { method, headers })
  const body = await response.text()
  expect(response.headers.get('ratelimit')).not.toBeNull()
  const [status, ...rest] = lines
  if (status === undefined) return
  expect(`HTTP/1.1 ${response.status} ${response.statusText}`).toBe(status)
  const gap = rest.indexOf('')
  for (const field of gap === -1 ? rest : rest.slice(0, gap)) {
    const [name = ''] = field.split(': ', 1)
    expect(`${name}: ${response.headers.get(name)}`).toBe(field)
  }
  if (gap !== -1) expect(body.trimEnd()).toBe(rest.slice(gap + 1).join('\n'))
}

/** The cells of the tables that have these headings. */
function rowsOf(page: string): string[][] {
  const rows = [...read(page).matchAll(/^\|(.*)\|$/gm)].map(([, row]) => row!.split(' | ').map((cell) => cell.trim()))
  const start = rows.findIndex(([there, here]) => there === 'there' && here === 'here')
  return start === -1 ? [] : rows.slice(start + 2)
}

describe.concurrent('the pages', { timeout: MINUTE }, () => {
  for (const block of blocks) it(`${block.page}, line ${block.line}: ${block.language}`, () => verify(block))

  it.for(pages)('%s has no block that is passed over, and no dead link', (page, { expect }) => {
    const found = blocksOf(page).reduce((sum, { transcript }) => sum + (transcript === undefined ? 2 : 4), 0)
    expect(read(page).match(/^\s*(```|~~~)/gm) ?? []).toHaveLength(found)
    const targets = [...read(page).matchAll(/\]\((?!https:)([^)#]+)[^)]*\)/g)].map(([, target]) => target!)
    expect(targets.filter((each) => !existsSync(join(root, 'docs', dirname(page), each)))).toEqual([])
  })

  it.for(pages.slice(1))('%s has before, after, a table and what gets better', (page, { expect }) => {
    const languages = blocksOf(page).map(({ language }) => language)
    expect(languages.slice(0, 2)).toEqual(['js', 'ts'])
    expect(rowsOf(page).length).toBeGreaterThan(10)
    expect(rowsOf(page).filter((row) => row.length !== 2 || row.includes(''))).toEqual([])
    expect(read(page)).toMatch(/^## What gets better$/m)
  })
})
