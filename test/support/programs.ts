import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { javaScriptOf } from '../../docs/site/javascript.ts'
import { buildInto } from './built.ts'

/** A fenced code block of a page. */
export interface Block {
  readonly language: string
  /** The line number of its first line of code, from 1. */
  readonly line: number
  readonly code: string
  /** For a program that listens: requests and the expected responses. */
  transcript?: string
  /** The JavaScript that runs: as the site shows it, or what the compiler makes. */
  readonly as?: 'module' | 'commonJs'
}

/** Returns the blocks of a page. A `console` block after a program is its transcript. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = []
  for (const { 1: language = '', 2: code = '', index } of markdown.matchAll(/^```(.*)\n([^]*?)^```$/gm)) {
    const line = markdown.slice(0, index).split('\n').length + 1
    const program = blocks.at(-1)
    if (language === 'console' && program?.language === 'ts') program.transcript = code
    else blocks.push({ language, line, code })
  }
  return blocks
}

/** Returns the number of fences of these blocks. A page with more fences has an unchecked block. */
export function fencesOf(blocks: readonly Block[]): number {
  return blocks.reduce((sum, { transcript }) => sum + (transcript === undefined ? 2 : 4), 0)
}

export const root: string = fileURLToPath(new URL('../..', import.meta.url))

const ENDS = { module: '.js', commonJs: '.cjs' }

const strict = {
  extends: '../tsconfig.json',
  compilerOptions: {
    noEmit: false,
    declaration: false,
    isolatedDeclarations: false,
    noUncheckedIndexedAccess: true,
    noPropertyAccessFromIndexSignature: true,
    noImplicitReturns: true,
    // For Nest.
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
    rootDir: '.',
    outDir: '../dist/programs',
  },
  include: ['.'],
}

// Servers listen on a free port and print it. Then their clock stops, so that the responses in a transcript do not depend on the
// speed of the machine. With `DATE`, all clocks stand still from the start.
export const preload = `
  import { Server } from 'node:net'
  process.on('disconnect', () => process.exit())
  process.channel.unref()
  function stopClock() {
    const [now, time] = [performance.now(), process.hrtime()]
    performance.now = () => now
    process.hrtime = Object.assign((since = [0, 0]) => [time[0] - since[0], time[1] - since[1]], process.hrtime)
  }
  if (process.env.DATE) {
    stopClock()
    const date = Date.parse(process.env.DATE)
    globalThis.Date = class extends Date {
      constructor(...args) {
        super(...(args.length === 0 ? [date] : args))
      }
      static now() {
        return date
      }
    }
  }
  const { listen } = Server.prototype
  Server.prototype.listen = function listenAnywhere(...args) {
    if (process.env.CLOCK === 'stops') stopClock()
    this.once('listening', () => process.send(this.address().port))
    return listen.call(this, { host: '127.0.0.1', port: 0 }, args.find((each) => typeof each === 'function'))
  }`

// The AWS SDK warns that a later version of it will not support Node 20.
const QUIET = { ...process.env, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true' }

const importer = (files: readonly string[]): string => `
  const errors = []
  for (const file of ${JSON.stringify(files)})
    await import(file).catch((error) => errors.push(file + ': ' + error.stack))
  process.send(errors, () => process.exit())`

/** Programs of pages, by name, compiled with strict flags against the built package. */
export class Programs {
  readonly #folder: string
  readonly #withUrls: (code: string) => string
  readonly #execArgv: string[]
  /** The errors of the compiler. */
  readonly complaints: string

  private constructor(folder: string, complaints: string, withUrls: (code: string) => string) {
    this.#folder = folder
    this.#withUrls = withUrls
    this.#execArgv = ['--disable-warning=ExperimentalWarning', '--import', join(folder, 'preload.mjs')]
    this.complaints = complaints
  }

  /** Compiles programs with the line numbers of their pages. `urls` replaces the URLs of servers in them. */
  static async compile(
    programs: ReadonlyMap<string, Block>,
    urls: Readonly<Record<string, string>> = {},
  ): Promise<Programs> {
    const withUrls = (code: string): string =>
      Object.entries(urls).reduce((text, [from, to]) => text.replaceAll(from, to), code)
    const folder = await mkdtemp(join(tmpdir(), 'sluice-programs-'))
    for (const file of ['package.json', 'tsconfig.json']) await cp(join(root, file), join(folder, file))
    await buildInto(folder)
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
    await mkdir(join(folder, 'programs'))
    for (const [name, { line, code }] of programs) {
      await writeFile(join(folder, 'programs', `${name}.ts`), '\n'.repeat(line - 1) + withUrls(code))
    }
    await writeFile(join(folder, 'programs', 'tsconfig.json'), JSON.stringify(strict))
    await writeFile(join(folder, 'preload.mjs'), preload)
    const tsc = [join(root, 'node_modules/typescript/bin/tsc'), '--pretty', 'false', '-p']
    const complaints = await node(folder, ...tsc, 'programs')
    await Promise.all(
      [...programs].map(async ([name, { code, as }]) => {
        const made = as === undefined ? undefined : await javaScriptOf(withUrls(code))
        if (made !== undefined) await writeFile(join(folder, 'dist/programs', `${name}${ENDS[as!]}`), made[as!])
      }),
    )
    return new Programs(folder, complaints, withUrls)
  }

  /**
   * Runs a program. Throws unless it prints what its comments `// → …` say, in order, and a server responds as in its transcript.
   * @param silent checks a server that has no transcript
   * @param clock whether the clock of a server stops once it listens
   */
  async verify(
    name: string,
    { code, transcript, as }: Block,
    silent?: (port: number) => Promise<void>,
    clock: 'stops' | 'runs' = 'stops',
  ): Promise<void> {
    expect(this.complaints.split('\n').filter((each) => each.startsWith(`programs/${name}.ts`))).toEqual([])
    const isServer = /\.listen\(|^serve\(/m.test(code)
    const env = { ...QUIET, CLOCK: isServer ? clock : 'runs' }
    const commonJs = join(this.#folder, 'dist', 'programs', `${name}.cjs`)
    const child = fork(as === 'commonJs' && existsSync(commonJs) ? commonJs : commonJs.replace(/cjs$/, 'js'), {
      cwd: this.#folder,
      execArgv: this.#execArgv,
      env,
      stdio: 'pipe',
    })
    try {
      if (!isServer) return await verifyOutput(child, code)
      const port = await portOf(child)
      if (transcript !== undefined) await verifyTranscript(transcript, port)
      else if (silent !== undefined) await silent(port)
      else throw new Error('A server is followed by a `console` block that shows what it answers')
    } finally {
      child.kill('SIGKILL')
    }
  }

  /** Imports the shown JavaScript of programs as ES modules, in one process, and returns the errors. */
  async importAll(programs: Iterable<readonly [name: string, block: Block]>): Promise<string[]> {
    const files: string[] = []
    for (const [name, { code }] of programs) {
      const made = await javaScriptOf(this.#withUrls(code))
      if (made === undefined) continue
      files.push(`./${name}.mjs`)
      await writeFile(join(this.#folder, 'dist/programs', `${name}.mjs`), made.module)
    }
    expect(files.length).toBeGreaterThan(0)
    const all = join(this.#folder, 'dist/programs/import-all.mjs')
    await writeFile(all, importer(files))
    const child = fork(all, {
      cwd: this.#folder,
      execArgv: this.#execArgv,
      env: QUIET,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    let errors: string[] | undefined
    child.on('message', (message) => {
      if (Array.isArray(message)) errors = message as string[]
    })
    await once(child, 'exit')
    return errors ?? ['the process ended early']
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Runs a program with Node. Returns its output, also after an error. */
export function node(folder: string, ...args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: folder }, (_error, stdout, stderr) => resolve(stdout + stderr))
  })
}

/** Throws unless a program prints what its comments `// → …` say, in order, and nothing else. */
export async function verifyOutput(child: ChildProcess, code: string): Promise<void> {
  const [out, errors, [exitCode]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')])
  expect(errors).toBe('')
  expect(exitCode).toBe(0)
  const promised = [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, line]) => line)
  expect(out.split('\n').slice(0, -1)).toEqual(promised)
}

/** Returns the port of a program that started with the `preload` above. */
export async function portOf(child: ChildProcess): Promise<number> {
  const errors = text(child.stderr!)
  const [port] = (await Promise.race([once(child, 'message'), once(child, 'exit')])) as [number]
  if (child.exitCode !== null) throw new Error(`It did not start:\n${await errors}`)
  return port
}

async function verifyTranscript(transcript: string, port: number): Promise<void> {
  for (const exchange of transcript.split(/^\$ /m).slice(1)) await verifyExchange(exchange, port)
}

/** Sends the request of a `curl` line and compares the response with the lines below it. */
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

/** Returns head and body of a response. The body is `undefined` if it is not shown. */
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
