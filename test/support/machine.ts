import { type ChildProcess, fork } from 'node:child_process'
import type cluster from 'node:cluster'
import { once } from 'node:events'
import { linkSync } from 'node:fs'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { MachineStoreOptions } from '../../src/stores/machine/index.ts'

/** The program of each process. */
export const MACHINE_WORKER: string = fileURLToPath(new URL('machine-worker.mjs', import.meta.url))

/** Leaves the socket file of a process that was killed: nobody listens at it. */
export async function leaveSocket(path: string): Promise<void> {
  const left = createServer().listen(`${path}.left`)
  await once(left, 'listening')
  linkSync(`${path}.left`, path)
  left.close()
  await once(left, 'close')
}

interface Answer {
  readonly id: number
  readonly result?: unknown
  readonly error?: { readonly code: string; readonly message: string }
}

/** How a test and a process exchange messages. */
interface Channel {
  post(message: object): void
  listen(receive: (answer: Answer) => void): void
  /** Kills it at once. */
  end(): unknown
  readonly pid?: number | undefined
}

/** What each process does. */
export interface MachineJob {
  readonly package: string
  readonly quota: number
  readonly options: MachineStoreOptions
}

/** A process or a thread that uses a machineStore. */
export class MachineProcess {
  readonly end: () => unknown
  readonly pid: number | undefined
  readonly #channel: Channel
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  #last = 0

  constructor(channel: Channel) {
    this.#channel = channel
    this.end = channel.end
    this.pid = channel.pid
    channel.listen((answer) => this.#waiting.get(answer.id)?.(answer))
  }

  /** Resolves when the program has started. */
  started(): Promise<unknown> {
    return new Promise((resolve) => this.#waiting.set(0, resolve))
  }

  /** Rejects with the code of an error. */
  ask<Result = void>(task: string, given: object = {}): Promise<Result> {
    const id = ++this.#last
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, ({ result, error }) => {
        if (error === undefined) resolve(result as Result)
        else reject(Object.assign(new Error(error.message), { code: error.code }))
      })
      this.#channel.post({ id, task, ...given })
    })
  }

  take(times: number, key?: string): Promise<{ admitted: number; failed: number }> {
    return this.ask('take', { times, ...(key && { key }) })
  }

  async warningCodes(): Promise<string[]> {
    return (await this.ask<{ code: string }[]>('warnings')).map(({ code }) => code)
  }
}

/** A process of its own. */
export function forked(job: MachineJob): MachineProcess {
  return child(fork(MACHINE_WORKER, { env: { ...process.env, SLUICE_MACHINE: JSON.stringify(job) } }))
}

/** A process whose files have at most 4096 bytes, as if the disk were full: a write of more bytes writes some of them. */
export function withSmallFiles(job: MachineJob): MachineProcess {
  const execArgv = ['-c', 'ulimit -f 8 && exec "$0" "$@"', process.execPath]
  const env = { ...process.env, SLUICE_MACHINE: JSON.stringify(job) }
  return child(fork(MACHINE_WORKER, { execPath: '/bin/sh', execArgv, env }))
}

export function child(made: ChildProcess): MachineProcess {
  return new MachineProcess({
    post: (message) => made.send(message),
    listen: (receive) => made.on('message', (message) => receive(message as Answer)),
    end: () => made.kill('SIGKILL'),
    pid: made.pid,
  })
}

export function clusterWorker(fork: typeof cluster.fork, job: MachineJob): MachineProcess {
  return child(fork({ SLUICE_MACHINE: JSON.stringify(job) }).process)
}

export function thread(job: MachineJob): MachineProcess {
  const made = new Worker(MACHINE_WORKER, { workerData: job })
  return new MachineProcess({
    // A thread has no origin.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    post: (message) => made.postMessage(message),
    listen: (receive) => made.on('message', receive),
    end: () => made.terminate(),
  })
}
