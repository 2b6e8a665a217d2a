import { isTestRun, type ProcessLike, warn } from '../../util/warn.ts'

let isChecked = false
let hasWarned = false

/** Warns once that a memory store counts only for its own process or thread, if the app has several. */
export function warnInCluster(): void {
  const { process } = globalThis as { process?: ProcessLike }
  if (isChecked || process === undefined) return
  isChecked = true
  if (isKnownAsOneOfSeveral(process)) warnOnce()
  else if (!isTestRun(process)) watchThreads(process)
}

function warnOnce(): void {
  if (hasWarned) return
  hasWarned = true
  warn(
    'SLUICE_PER_PROCESS',
    'An app with several processes or threads uses memoryStore(). Each process counts by itself, so together they admit a ' +
      'multiple of each limit. Use a store that all processes share, such as ' +
      "redisStore(client) from 'sluice/redis', or on one machine machineStore() from 'sluice/machine'. If each process should have its own limits, start node with " +
      '--disable-warning=SLUICE_PER_PROCESS.',
  )
}

/** Deno throws when the environment may not be read. That is no reason to fail. */
export function isKnownAsOneOfSeveral(process: ProcessLike): boolean {
  try {
    return isOneOfSeveral(process)
  } catch {
    return false
  }
}

/**
 * True in a worker of `node:cluster`, and in an instance of several under pm2. Test runners start neither.
 *
 * Node removes `NODE_UNIQUE_ID` from a worker's environment before the application runs, so `node:cluster` itself has to be
 * asked. It is not loaded in a process without a channel to a parent.
 */
export function isOneOfSeveral(process: ProcessLike): boolean {
  const { env = {} } = process
  if (env['pm_id'] !== undefined && Number(env['NODE_APP_INSTANCE']) > 0) return true
  // A single instance in pm2's cluster mode is a worker, too.
  if (env['pm_id'] !== undefined && env['exec_mode'] === 'cluster_mode') return env['instances'] !== '1'
  if (env['NODE_UNIQUE_ID'] !== undefined) return true
  if (typeof process.send !== 'function') return false
  const cluster = process.getBuiltinModule?.('node:cluster') as { readonly isWorker?: boolean } | undefined
  return cluster?.isWorker === true
}

/** The part of `node:worker_threads` that lets threads find each other. */
interface Threads {
  readonly isMainThread: boolean
  readonly threadId: number
  readonly BroadcastChannel: new (name: string) => {
    onmessage: ((message: { readonly data: ThreadMessage }) => void) | null
    postMessage(data: ThreadMessage): void
    unref(): void
  }
}

interface ThreadMessage {
  readonly file: string
  readonly from: number | undefined
  readonly isReply: boolean
}

/**
 * Warns in a worker thread once another thread that runs the same file has a memory store, too. Threads of different files are parts of one
 * app that need not have the same limits.
 */
function watchThreads(process: ProcessLike): void {
  const threads = process.getBuiltinModule?.('node:worker_threads') as Partial<Threads> | undefined
  const file = process.argv?.[1]
  if (threads?.isMainThread !== false || threads.BroadcastChannel === undefined || file === undefined) return
  const { threadId: from } = threads
  const channel = new threads.BroadcastChannel('sluice: memory stores of threads')
  function send(isReply: boolean): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel between threads has no origin
    channel.postMessage({ file: file!, from, isReply })
  }
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the channel has only this listener
  channel.onmessage = function foundThread({ data }) {
    // A second copy of this package in the same thread.
    if (data.file !== file || data.from === from) return
    if (!data.isReply) send(true)
    warnOnce()
  }
  channel.unref()
  send(false)
}
