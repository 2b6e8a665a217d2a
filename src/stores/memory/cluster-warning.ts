import { warn } from '../../util/warn.ts'

/** The part of Node's `process` that shows whether an app runs in several processes or threads. */
export interface ProcessLike {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly send?: unknown
  getBuiltinModule?(name: string): unknown
}

let warned = false

/** Warns once that a memory store counts only for its own process or thread, if the app has several. */
export function warnInCluster(): void {
  const { process } = globalThis as { process?: ProcessLike }
  if (warned || process === undefined || !isKnownAsOneOfSeveral(process)) return
  warned = true
  warn(
    'SLUICE_PER_PROCESS',
    'An app with several processes or threads uses memoryStore(). Each process counts by itself, so together they admit a ' +
      'multiple of each limit. Use a store that all processes share, such as ' +
      "redisStore(client) from 'sluice/redis'. If each process should have its own limits, start node with " +
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
 * True in a worker of `node:cluster`, in a worker thread, and in an instance of several under pm2.
 *
 * Node removes `NODE_UNIQUE_ID` from a worker's environment before the application runs, so `node:cluster` itself has to be
 * asked. It is not loaded in a process without a channel to a parent.
 */
export function isOneOfSeveral(process: ProcessLike): boolean {
  const { env = {} } = process
  if (env['pm_id'] !== undefined && Number(env['NODE_APP_INSTANCE']) > 0) return true
  // A single instance in pm2's cluster mode is a worker, too.
  if (env['pm_id'] !== undefined && env['exec_mode'] === 'cluster_mode') return env['instances'] !== '1'
  if (env['NODE_UNIQUE_ID'] !== undefined || isWorkerThread(process)) return true
  if (typeof process.send !== 'function') return false
  const cluster = process.getBuiltinModule?.('node:cluster') as { readonly isWorker?: boolean } | undefined
  return cluster?.isWorker === true
}

function isWorkerThread(process: ProcessLike): boolean {
  const threads = process.getBuiltinModule?.('node:worker_threads') as { readonly isMainThread?: boolean } | undefined
  return threads?.isMainThread === false
}
