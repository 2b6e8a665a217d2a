import { execFile } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll } from 'vitest'
import { run } from '../../src/cli/run.ts'
import { builtPackage } from './built.ts'

export interface Result {
  readonly code: number
  readonly out: string
  readonly error: string
}

/** What a process of `sluice` receives in addition to its words. */
export interface Given {
  /** The standard input. Default: nothing. */
  readonly input?: string | Buffer
  readonly flags?: readonly string[]
}

/** Returns the command for all tests of a file, with a folder that is removed after them. */
export function commandLine(): CommandLine {
  const made = new CommandLine()
  afterAll(() => made.remove())
  return made
}

/** The command `sluice`, and a folder in which it runs: the working directory until it is removed. */
export class CommandLine {
  readonly home: string = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-cli-')))
  readonly #before = process.cwd()

  constructor() {
    process.chdir(this.home)
  }

  /** Returns the path of the program, built. */
  async program(): Promise<string> {
    return join(await builtPackage(), 'src', 'cli', 'sluice.js')
  }

  /** Runs the command in this process. */
  async run(words: readonly string[], input: string | Buffer = ''): Promise<Result> {
    let [out, error] = ['', '']
    const code = await run(words, {
      stdin: Readable.from([Buffer.from(input)]),
      stdout: { write: (text) => (out += text) },
      stderr: { write: (text) => (error += text) },
    })
    return { code, out, error }
  }

  /** Runs the command in a process of its own, as a shell does. */
  async start(words: readonly string[], { input = '', flags = [] }: Given = {}): Promise<Result> {
    const program = await this.program()
    const options = { cwd: this.home, maxBuffer: 2 ** 26 }
    return new Promise((resolve) => {
      const child = execFile(process.execPath, [...flags, program, ...words], options, (failure, out, error) => {
        resolve({ code: failure === null ? 0 : Number(failure.code), out, error })
      })
      // The command may end before it has read everything.
      child.stdin!.on('error', () => undefined).end(input)
    })
  }

  /** Returns what the command prints. Throws what it prints as an error. */
  async output(...words: readonly string[]): Promise<string> {
    const { code, out, error } = await this.run(words)
    if (code !== 0) throw new Error(`exit code ${code}: ${error}`)
    return out
  }

  /** Writes a file into the folder, and returns its name. */
  file(name: string, content: string | Buffer): string {
    writeFileSync(join(this.home, name), content)
    return name
  }

  remove(): void {
    process.chdir(this.#before)
    rmSync(this.home, { recursive: true, force: true })
  }
}
