// What README.md says is what happens. The convention, by the language of a block:
//
// - `ts` is a program. It is compiled under strict flags, and run. What it prints is what its comments `// → …` say, in order.
// - `console` shows requests to the server that the program before it has started, and the answers: the status and whatever
//   header fields are shown, and the body where one is. The server's port is its own, and its clock stands still.
//   A Redis at its usual port is one of the test's own.
// - `sh` has commands of npm: scripts of package.json, or an installation of this package.
// - `json` is a limit.
import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { limit, type LimitInput } from 'sluice'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import manifest from '../package.json' with { type: 'json' }
import { builtIn } from '../src/algorithms/index.ts'
import { type RedisServer, startRedis } from './support/redis.ts'

const MINUTE = 60_000
const root = fileURLToPath(new URL('..', import.meta.url))
const readme = readFileSync(join(root, 'README.md'), 'utf8')

interface Block {
  readonly language: string
  /** The line of its first line of code, from 1. */
  readonly line: number
  readonly code: string
  /** Of a program that listens: what to ask it, and what it answers. */
  transcript?: string
}

function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = []
  for (const { 1: language = '', 2: code = '', index } of markdown.matchAll(/^```(.*)\n([^]*?)^```$/gm)) {
    const line = markdown.slice(0, index).split('\n').length + 1
    const program = blocks.at(-1)
    if (language === 'console' && program?.language === 'ts') program.transcript = code
    else blocks.push({ language, line, code })
  }
  return blocks
}

let folder: string
let redis: RedisServer
let complaints: string

/** Compiles programs, each at its own lines in a file named after its first, against the package as it is built from here. */
async function compile(programs: Readonly<Record<string, readonly Block[]>>): Promise<void> {
  for (const part of ['src', 'adapters', 'package.json', 'tsconfig.json', 'tsconfig.build.json']) {
    await cp(join(root, part), join(folder, part), { recursive: true })
  }
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
  await mkdir(join(folder, 'readme'))
  for (const [document, blocks] of Object.entries(programs)) {
    for (const { line, code } of blocks) {
      const program = code.replaceAll('redis://localhost:6379', redis.url)
      await writeFile(join(folder, 'readme', `${document}-${line}.ts`), '\n'.repeat(line - 1) + program)
    }
  }
  await writeFile(join(folder, 'readme', 'tsconfig.json'), JSON.stringify(strict))
  await writeFile(join(folder, 'preload.mjs'), preload)
  expect(await tsc('-p', 'tsconfig.build.json')).toBe('')
  complaints = await tsc('-p', 'readme')
}

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
    outDir: '../dist/readme',
  },
  include: ['.'],
}

// Servers listen on a free port and tell which. From then on their clock stands still: however slow a machine is, the answers
// are those that were written down.
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

/** Answers what it has to complain about. */
function tsc(...args: readonly string[]): Promise<string> {
  const program = join(root, 'node_modules/typescript/bin/tsc')
  return new Promise((resolve) => {
    execFile(process.execPath, [program, '--pretty', 'false', ...args], { cwd: folder }, (_error, stdout, stderr) => {
      resolve(stdout + stderr)
    })
  })
}

/** Throws when a block does not do what it says. */
async function verify(block: Block, document: string): Promise<void> {
  if (block.language === 'ts') return verifyProgram(block, `${document}-${block.line}`)
  if (block.language === 'sh') return verifyCommands(block.code)
  expect(block.language).toBe('json')
  limit(JSON.parse(block.code) as LimitInput)
}

async function verifyProgram({ code, transcript }: Block, name: string): Promise<void> {
  expect(complaints.split('\n').filter((each) => each.startsWith(`readme/${name}.ts`))).toEqual([])
  const preloaded = ['--import', join(folder, 'preload.mjs')]
  const child = fork(join(folder, 'dist', 'readme', `${name}.js`), { execArgv: preloaded, stdio: 'pipe' })
  try {
    if (code.includes('.listen(')) await verifyServer(child, transcript)
    else await verifyOutput(child, code)
  } finally {
    child.kill('SIGKILL')
  }
}

async function verifyOutput(child: ChildProcess, code: string): Promise<void> {
  const [out, errors, [exitCode]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')])
  expect(errors).toBe('')
  expect(exitCode).toBe(0)
  const promised = [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, line]) => line)
  expect(out.split('\n').slice(0, -1)).toEqual(promised)
}

async function verifyServer(child: ChildProcess, transcript: string | undefined): Promise<void> {
  const errors = text(child.stderr!)
  const [port] = (await Promise.race([once(child, 'message'), once(child, 'exit')])) as [number]
  if (child.exitCode !== null) throw new Error(`It did not start:\n${await errors}`)
  if (transcript === undefined) throw new Error('A server is followed by a `console` block that shows what it answers')
  const exchanges = transcript.split(/^\$ /m).slice(1)
  for (const exchange of exchanges) await verifyExchange(exchange, port)
}

/** Sends what a line of `curl` would send, and compares the answer with the lines below it. */
async function verifyExchange(exchange: string, port: number): Promise<void> {
  const end = exchange.indexOf('\n')
  const { url, init, include } = curl(exchange.slice(0, end))
  const response = await fetch(url.replace('localhost:3000', `127.0.0.1:${port}`), init)
  const body = await response.text()
  const [head, shownBody] = include ? halves(exchange.slice(end + 1)) : ['', exchange.slice(end + 1)]

  const fields = head.split('\n').filter((each) => each !== '')
  if (include) expect(`HTTP/1.1 ${response.status} ${response.statusText}`).toBe(fields.shift())
  const names = fields.map((each) => each.slice(0, each.indexOf(': ')))
  expect(names.map((name) => `${name}: ${response.headers.get(name)}`)).toEqual(fields)

  const json = /\bjson\b/.test(response.headers.get('content-type') ?? '')
  if (shownBody === undefined) return
  if (json) expect(JSON.parse(body)).toEqual(JSON.parse(shownBody))
  else expect(body.trimEnd()).toBe(shownBody.trimEnd())
}

/** Head and body of an answer; the body is `undefined` when it is not shown. */
function halves(answer: string): [string, string | undefined] {
  const gap = answer.indexOf('\n\n')
  return gap === -1 ? [answer, undefined] : [answer.slice(0, gap), answer.slice(gap + 2)]
}

interface Request {
  url: string
  include: boolean
  readonly init: { method?: string; body?: string; readonly headers: [string, string][] }
}

function curl(command: string): Request {
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '')
  expect(words.shift()).toBe('curl')
  const request: Request = { url: '', include: false, init: { headers: [] } }
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === '-i') request.include = true
    else if (word === '-X') request.init.method = words.shift()!
    else if (word === '-H') request.init.headers.push(words.shift()!.split(': ', 2) as [string, string])
    else if (word === '-d') request.init.body = words.shift()!
    else if (word.startsWith('http://localhost:3000/')) request.url = word
    else throw new Error(`curl ${word} is not known here`)
  }
  return request
}

function verifyCommands(code: string): void {
  const commands = code.split(/&&|\n/).map((each) => each.replace(/#.*/, '').trim())
  const scripts = Object.keys(manifest.scripts)
  const known = ['npm ci', 'npm start', 'npm test', `npm install ${manifest.name}`]
  const runnable = [...known, ...scripts.map((name) => `npm run ${name}`)]
  expect(scripts).toEqual(expect.arrayContaining(['start', 'test']))
  expect(runnable).toEqual(expect.arrayContaining(commands.filter((each) => each !== '')))
}

/** The fragment that leads to a heading, as GitHub makes it. */
function fragment(heading: string): string {
  return `#${heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')}`
}

function fragments(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => fragment(heading!))
}

/** Links that lead nowhere. */
function deadLinks(markdown: string): string[] {
  const targets = [...markdown.matchAll(/\]\(([^)]*)\)/g)].map(([, target]) => target!)
  return targets.filter((target) => {
    const [file, heading] = target.split('#') as [string, string?]
    if (file !== '' && !existsSync(join(root, file))) return true
    const text = file === '' ? markdown : readFileSync(join(root, file), 'utf8')
    return heading !== undefined && !fragments(text).includes(`#${heading}`)
  })
}

/** The codes of warnings that there are in the sources. */
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

/** A block for each way in which a README can be wrong. */
const mistakes: Readonly<Record<string, Omit<Block, 'line'>>> = {
  'a type that does not fit': { language: 'ts', code: "import { perSecond } from 'sluice'\nperSecond('10')\n" },
  'a name that does not exist': { language: 'ts', code: "import { memoryShop } from 'sluice'\n" },
  'an output that is another': { language: 'ts', code: 'console.log(1 + 1) // → 3\n' },
  'an output that is not told': { language: 'ts', code: 'console.log(1 + 1)\n' },
  'a program that throws': { language: 'ts', code: "import { perSecond } from 'sluice'\nperSecond(0)\n" },
  'a server that does not start': { language: 'ts', code: `${HTTP}throw new Error(String(createServer().listen))\n` },
  'a server that shows no answer': { language: 'ts', code: SERVER },
  'another status': {
    language: 'ts',
    code: SERVER,
    transcript: '$ curl -i http://localhost:3000/\nHTTP/1.1 429 Too Many Requests\n',
  },
  'another field': {
    language: 'ts',
    code: SERVER,
    transcript: '$ curl -i http://localhost:3000/\nHTTP/1.1 200 OK\nRateLimit: b\n',
  },
  'another body': { language: 'ts', code: SERVER, transcript: '$ curl http://localhost:3000/\na\n' },
  'a script that does not exist': { language: 'sh', code: 'npm ci && npm run nothing\n' },
  'a package of another name': { language: 'sh', code: 'npm install sluiced\n' },
  'a limit that is none': { language: 'json', code: '{ "algorithm": "gcra", "quota": 100, "window": "1 fortnight" }' },
  'a language that nobody checks': { language: 'js', code: 'anything()\n' },
}
const wrong = Object.values(mistakes).map((each, i): Block => Object.assign(each, { line: i + 1 }))

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-readme-'))
  redis = await startRedis()
  await compile({
    readme: blocks.filter(({ language }) => language === 'ts'),
    wrong: wrong.filter(({ language }) => language === 'ts'),
  })
}, 2 * MINUTE)

afterAll(async () => {
  await redis.stop()
  await rm(folder, { recursive: true, force: true })
})

describe.concurrent('README.md', { timeout: MINUTE }, () => {
  for (const block of blocks) it(`line ${block.line}: ${block.language}`, () => verify(block, 'readme'))

  it('has no block that is passed over', () => {
    const found = blocks.reduce((sum, { transcript }) => sum + (transcript === undefined ? 2 : 4), 0)
    expect(readme.match(/^\s*(```|~~~)/gm)).toHaveLength(found)
  })

  it('has no dead links', () => expect(deadLinks(readme)).toEqual([]))

  it('lists every warning that there is', () => {
    const rows = [...readme.matchAll(/^\| `(SLUICE_\w+)` .*\|$/gm)].map(([, code]) => code!)
    expect(rows.toSorted()).toEqual(warningCodes())
  })

  it('lists every algorithm that there is, and how many numbers it keeps', () => {
    const rows = [...readme.matchAll(/^\| `(\w+)` .*\| (\d) numbers[^|]*\|$/gm)]
    const listed = rows.map(([, name, cells]) => `${name} ${cells}`)
    expect(listed.toSorted()).toEqual(builtIn.map(({ name, blank }) => `${name} ${blank.length}`).toSorted())
  })
})

describe.concurrent('a README that is wrong is found out by', { timeout: MINUTE }, () => {
  for (const [i, what] of Object.keys(mistakes).entries()) {
    it(what, () => expect(verify(wrong[i]!, 'wrong')).rejects.toThrow())
  }

  it('a link that leads nowhere', () => {
    const here = '# A heading\n[here](#a-heading) [there](#elsewhere)'
    const files = '[file](README.md) [part](README.md#warnings) [none](nowhere.md) [no part](README.md#nothing)'
    expect(deadLinks(here)).toEqual(['#elsewhere'])
    expect(deadLinks(files)).toEqual(['nowhere.md', 'README.md#nothing'])
  })
})
