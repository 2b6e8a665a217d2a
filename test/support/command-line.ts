import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from './redis-built.ts'

export interface Result {
  readonly code: number
  readonly out: string
  readonly error: string
}

/** What a run of `sluice` receives in addition to its words. */
export interface Given {
  /** The standard input. Default: nothing. */
  readonly input?: string | Buffer
  /** Options of Node. */
  readonly flags?: readonly string[]
}

/** The command `sluice`, built, and a folder in which it runs. */
export class CommandLine {
  readonly home: string = mkdtempSync(join(tmpdir(), 'sluice-cli-'))
  readonly #built = build()

  /** The folder of the build. */
  get directory(): string {
    return this.#built.directory
  }

  get program(): string {
    return join(this.directory, 'src', 'cli', 'sluice.js')
  }

  /** Runs the command as a shell does. */
  run(words: readonly string[], { input = '', flags = [] }: Given = {}): Promise<Result> {
    const options = { cwd: this.home, maxBuffer: 2 ** 26 }
    return new Promise((resolve) => {
      const child = execFile(process.execPath, [...flags, this.program, ...words], options, (failure, out, error) => {
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
    this.#built.remove()
    rmSync(this.home, { recursive: true, force: true })
  }
}
