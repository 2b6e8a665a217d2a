import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { afterEach } from 'vitest'
import { type CommandLine, commandLine } from './command-line.ts'
import { type Reply, replyTo } from './http.ts'

/** A process of `sluice serve`. */
export interface Serving {
  readonly process: ChildProcess
  /** `http://127.0.0.1:…`, or the socket file. */
  readonly where: string
  /** What it has printed as errors and notes. */
  readonly log: () => string
  /** Sends a signal, and returns the exit code. */
  end(signal?: NodeJS.Signals): Promise<number | null>
}

const running = new Set<ChildProcess>()

/** Returns the command for all tests of a file, with rules in `rules.json`. What a test has started is killed after the test. */
export function commandLineWithRules(rules: object): CommandLine {
  const program = commandLine()
  program.file('rules.json', JSON.stringify(rules))
  afterEach(killServing)
  return program
}

/** Serves `rules.json` at a free port. */
export function serveRules(
  program: CommandLine,
  env: Readonly<Record<string, string>> = {},
  ...words: readonly string[]
): Promise<Serving> {
  return startServe(program, ['rules.json', '--port', '0', ...words], env)
}

/** Starts `sluice serve` with a token, or without one, and waits until it listens. */
export async function startServe(
  program: CommandLine,
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Serving> {
  const { SLUICE_TOKEN: _, ...own } = process.env
  const child = spawn(process.execPath, [await program.program(), 'serve', ...words], {
    cwd: program.home,
    env: { ...own, ...env },
  })
  running.add(child)
  let [out, log] = ['', '']
  child.stderr.on('data', (data: Buffer) => (log += data.toString()))
  const started = new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (data: Buffer) => {
      out += data.toString()
      const [, where] = /^sluice serves (.+)$/m.exec(out) ?? []
      if (where !== undefined) resolve(where)
    })
    child.once('exit', (code) => reject(new Error(`It ended with ${code}: ${log}`)))
  })
  const where = await started
  return {
    process: child,
    where,
    log: () => log,
    async end(signal = 'SIGTERM') {
      const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
      child.kill(signal)
      await ended
      return child.exitCode
    },
  }
}

function killServing(): void {
  for (const each of running) each.kill('SIGKILL')
  running.clear()
}

/** Sends a request to a service at an address or a socket file. */
export async function askService(
  { where }: Pick<Serving, 'where'>,
  path: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
  agent: http.Agent | false = false,
): Promise<Reply> {
  const to = where.startsWith('http') ? { host: '127.0.0.1', port: new URL(where).port } : { socketPath: where }
  return replyTo(http.request({ ...to, path, method, headers, agent }).end(body))
}

/** Asks about a request from an address. Returns the answer. */
export function decideFor(
  serving: Pick<Serving, 'where'>,
  ip: string,
  headers: Record<string, string> = {},
): Promise<Reply> {
  const body = JSON.stringify({ input: { ip, method: 'GET', path: '/api/x' } })
  return askService(serving, '/decide', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body,
  })
}
