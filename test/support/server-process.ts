// Servers in processes of their own, for tests: from the start until they answer, and to the end.
import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'

/** Waits until a condition is true, and looks every `interval` milliseconds. Throws after so many seconds. */
export async function eventually(condition: () => unknown, what: string, seconds = 20, interval = 20): Promise<void> {
  const end = performance.now() + seconds * 1000
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${seconds} seconds`)
    await pause(interval)
  }
}

/**
 * Starts a server, and waits until it is ready. Throws with what it has printed if it ends before.
 * @param ready what it prints when it is ready, or a URL that it answers then
 */
export async function startServer(
  program: string,
  words: readonly string[],
  ready: RegExp | string,
  options: SpawnOptions = {},
): Promise<ChildProcess> {
  const child = spawn(program, words, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  child.once('error', (error) => (log += error.message))
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (data: Buffer) => (log += data.toString()))
  const isReady = (): boolean | Promise<boolean> => (typeof ready === 'string' ? answers(ready) : ready.test(log))
  try {
    await eventually(() => hasEnded(child) || isReady(), `The start of ${program}`, 60)
    if (hasEnded(child)) throw new Error(`${program} ended with ${child.exitCode}`)
  } catch (cause) {
    child.kill('SIGKILL')
    throw new Error(`${program} did not start: ${log}`, { cause })
  }
  return child
}

/** Returns whether a server answers a URL, and not that it is still starting. */
async function answers(url: string): Promise<boolean> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(5000) }).catch(() => undefined)
  await answer?.body?.cancel()
  return answer !== undefined && answer.status < 500
}

/** A process that can be ended and started again. */
export interface Restartable {
  readonly process: ChildProcess
  end(signal?: NodeJS.Signals): Promise<void>
  start(): Promise<void>
}

export async function restartable(launch: () => Promise<ChildProcess>): Promise<Restartable> {
  let child = await launch()
  return {
    get process() {
      return child
    },
    end: (signal) => endProcess(child, signal),
    async start() {
      child = await launch()
    },
  }
}

/** A database server for one test, on a free port of this machine. */
export interface DatabaseServer {
  readonly url: string
  readonly process: ChildProcess
  /** Ends the server and keeps its data. */
  stop(): Promise<void>
  /** Starts it again with its data. */
  start(): Promise<void>
  /** Ends it and deletes its data. */
  remove(): Promise<void>
}

/** Kills a process, and waits until it has ended. */
export async function endProcess(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  child.kill(signal)
  while (!hasEnded(child)) await pause(5)
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null
}
