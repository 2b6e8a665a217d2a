import { warn } from '../../util/warn.ts'

/** The part of Node's `process` that shows whether it is one of several processes of an app. */
export interface ProcessLike {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly send?: unknown
  getBuiltinModule?(name: string): unknown
}

let warned = false

/** Warns once when this process is one of several of an app, because each counts alone. */
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

/** The same as `isOneOfSeveral`, and false where the environment may not be read, as in Deno without a permission. */
export function isKnownAsOneOfSeveral(process: ProcessLike): boolean {
  try {
    return isOneOfSeveral(process)
  } catch {
    return false
  }
}

/**
 * Returns true in a worker of `node:cluster`, and in an instance of several under pm2.
 *
 * Node takes `NODE_UNIQUE_ID` out of a worker's environment before the application runs, so only `node:cluster` knows.
 * It is not loaded when there is no channel to a primary.
 */
export function isOneOfSeveral(process: ProcessLike): boolean {
  const { env = {} } = process
  if (env['pm_id'] !== undefined && Number(env['NODE_APP_INSTANCE']) > 0) return true
  // In pm2's cluster mode a single instance is a worker as well.
  if (env['pm_id'] !== undefined && env['exec_mode'] === 'cluster_mode') return env['instances'] !== '1'
  if (env['NODE_UNIQUE_ID'] !== undefined) return true
  if (typeof process.send !== 'function') return false
  const cluster = process.getBuiltinModule?.('node:cluster') as { readonly isWorker?: boolean } | undefined
  return cluster?.isWorker === true
}
