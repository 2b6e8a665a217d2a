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
  /** Whether it needs a process of its own. The other programs share two, in which they run one after the other. */
  readonly alone?: boolean
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

// The AWS SDK warns that a later version of it will not support Node 20.
const QUIET = { ...process.env, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true' }

const isServer = (code: string): boolean => /\.listen\(|^serve\(/m.test(code)

/** Programs of pages, by name, compiled with strict flags against the built package. */
export class Programs {
  readonly #folder: string
  readonly #withUrls: (code: string) => string
  readonly #runners: { readonly [of in 'ending' | 'servers']: Runner }
  /** The errors of the compiler. */
  readonly complaints: string

  private constructor(folder: string, complaints: string, withUrls: (code: string) => string) {
    this.#folder = folder
    // What servers leave behind keeps their process alive, so that no other program would end in it.
    this.#runners = { ending: new Runner(folder), servers: new Runner(folder) }
    this.#withUrls = withUrls
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
    { code, transcript, as, alone = false }: Block,
    silent?: (port: number) => Promise<void>,
    clock: 'stops' | 'runs' = 'stops',
  ): Promise<void> {
    expect(this.complaints.split('\n').filter((each) => each.startsWith(`programs/${name}.ts`))).toEqual([])
    const commonJs = this.#fileOf(name, '.cjs')
    const file = as === 'commonJs' && existsSync(commonJs) ? commonJs : this.#fileOf(name, '.js')
    const runner = alone ? new Runner(this.#folder) : this.#runners[isServer(code) ? 'servers' : 'ending']
    try {
      if (!isServer(code)) return verifyEnd(await runner.run(file), code)
      await runner.serve(file, clock, async (port) => {
        if (transcript !== undefined) await verifyTranscript(transcript, port)
        else if (silent !== undefined) await silent(port)
        else throw new Error('A server is followed by a `console` block that shows what it answers')
      })
    } finally {
      if (alone) runner.end()
    }
  }

  #fileOf(name: string, end: string): string {
    return join(this.#folder, 'dist/programs', `${name}${end}`)
  }

  /** Runs the shown JavaScript of programs as ES modules, and returns the errors. Their counts in databases go on, so their output differs. */
  async importAll(programs: Iterable<readonly [name: string, block: Block]>): Promise<string[]> {
    const errors: string[] = []
    for (const [name, { code }] of programs) {
      const made = await javaScriptOf(this.#withUrls(code))
      if (made === undefined) continue
      const file = this.#fileOf(name, '.mjs')
      await writeFile(file, made.module)
      const { ending, servers } = this.#runners
      const run = isServer(code)
        ? servers.serve(file, 'runs', async () => undefined)
        : ending.run(file).then((end) => expect(end.errors).toBe(''))
      await run.catch((error: unknown) => errors.push(`${name}: ${String(error)}`))
    }
    return errors
  }

  async remove(): Promise<void> {
    for (const runner of Object.values(this.#runners)) runner.end()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** What a program has printed, and the code that its process would have ended with. */
interface End {
  readonly output: string
  readonly errors: string
  readonly exitCode: number
}

/** A process that runs programs, one after the other: test/support/programs-worker.mjs. It starts with the first one, and again if one ends it. */
class Runner {
  readonly #folder: string
  #child: ChildProcess | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Runs a program until nothing keeps its process alive. */
  run(file: string): Promise<End> {
    return this.#afterOthers(() => this.#ask({ file }) as Promise<End>)
  }

  /** Runs a server as long as `use` takes. */
  serve(file: string, clock: 'stops' | 'runs', use: (port: number) => Promise<void>): Promise<void> {
    return this.#afterOthers(async () => {
      const answer = await this.#ask({ file, clock })
      if (!('port' in answer)) throw new Error(`It did not start:\n${answer.errors}`)
      try {
        await use(answer.port)
      } finally {
        await this.#ask({})
      }
    })
  }

  end(): void {
    this.#child?.kill('SIGKILL')
  }

  #afterOthers<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(work)
    this.#last = result.catch(() => undefined)
    return result
  }

  async #ask(message: object): Promise<End | { readonly port: number }> {
    if (this.#child?.connected !== true) this.#child = this.#start()
    const child = this.#child
    child.send(message)
    const waiting = new AbortController()
    const late = setTimeout(() => child.kill('SIGKILL'), 200_000)
    try {
      const [answer] = (await Promise.race([
        once(child, 'message', { signal: waiting.signal }),
        once(child, 'exit', { signal: waiting.signal }),
      ])) as [object | number | null]
      if (typeof answer !== 'object' || answer === null)
        throw new Error(`The process ended: ${JSON.stringify(message)}`)
      return answer as End
    } finally {
      waiting.abort()
      clearTimeout(late)
    }
  }

  #start(): ChildProcess {
    return fork(join(root, 'test/support/programs-worker.mjs'), {
      cwd: this.#folder,
      env: QUIET,
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
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
  const [output, errors, [exitCode]] = await Promise.all([
    text(child.stdout!),
    text(child.stderr!),
    once(child, 'close') as Promise<[number]>,
  ])
  verifyEnd({ output, errors, exitCode }, code)
}

function verifyEnd({ output, errors, exitCode }: End, code: string): void {
  expect(errors).toBe('')
  expect(exitCode).toBe(0)
  const promised = [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, line]) => line)
  expect(output.split('\n').slice(0, -1)).toEqual(promised)
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
