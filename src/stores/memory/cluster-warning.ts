import { warn } from '../../util/warn.ts'

/** As much of Node's `process` as tells whether it is one of several alike. */
export interface ProcessLike {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly send?: unknown
  getBuiltinModule?(name: string): unknown
}

let warned = false

/** Tells the operator once, where this process is one of several, that what it counts in memory is only its own share. */
export function warnInCluster(): void {
  const { process } = globalThis as { process?: ProcessLike }
  if (warned || process === undefined || !isKnownAsOneOfSeveral(process)) return
  warned = true
  warn(
    'SLUICE_PER_PROCESS',
    'memoryStore() is used in one of several processes of an app. Each counts by itself, so that together they admit each ' +
      "limit as many times as there are processes. Give limiters a store that all share, such as redisStore(client) from 'sluice/redis'. " +
      'If every process is meant to have limits of its own, start node with --disable-warning=SLUICE_PER_PROCESS.',
  )
}

/** Deno keeps the environment from whom it was not allowed; a warning is not worth a permission, nor an error. */
export function isKnownAsOneOfSeveral(process: ProcessLike): boolean {
  try {
    return isOneOfSeveral(process)
  } catch {
    return false
  }
}

/**
 * True in a worker of `node:cluster`, and in an instance of several under pm2.
 *
 * Node takes `NODE_UNIQUE_ID` out of a worker's environment before the application runs, so `node:cluster` itself has to be
 * asked; it is not loaded where there is no channel to a primary.
 */
export function isOneOfSeveral(process: ProcessLike): boolean {
  const { env = {} } = process
  if (env['pm_id'] !== undefined && Number(env['NODE_APP_INSTANCE']) > 0) return true
  // One instance in pm2's cluster mode is a worker as well, without others beside it.
  if (env['pm_id'] !== undefined && env['exec_mode'] === 'cluster_mode') return env['instances'] !== '1'
  if (env['NODE_UNIQUE_ID'] !== undefined) return true
  if (typeof process.send !== 'function') return false
  const cluster = process.getBuiltinModule?.('node:cluster') as { readonly isWorker?: boolean } | undefined
  return cluster?.isWorker === true
}
