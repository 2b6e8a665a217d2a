import { isTestRun, type ProcessLike } from '../../util/warn.ts'
import { warnLater, withWarnings } from '../../util/warn-later.ts'
import type { Threads } from '../../util/warnings/threads.ts'

let isChecked = false
let hasWarned = false

/** Warns once that a memory store counts only for its own process or thread, if the app has several. */
export function warnInCluster(): void {
  const { process } = globalThis as { process?: ProcessLike }
  if (isChecked || process === undefined) return
  isChecked = true
  if (isOneOfSeveral(process)) return warnOnce()
  const threads = process.getBuiltinModule?.('node:worker_threads') as Partial<Threads> | undefined
  const file = process.argv?.[1]
  if (threads?.isMainThread === false && file !== undefined && !isTestRun(process))
    withWarnings(({ watchThreads }) => watchThreads(threads, file, warnOnce))
}

function warnOnce(): void {
  if (hasWarned) return
  hasWarned = true
  warnLater('SLUICE_PER_PROCESS')
}

/**
 * True in a worker of `node:cluster`, and in an instance of several under pm2. Test runners start neither.
 *
 * Node removes `NODE_UNIQUE_ID` from a worker's environment before the application runs, so `node:cluster` itself has to be
 * asked. It is not loaded in a process without a channel to a parent.
 */
export function isOneOfSeveral(process: ProcessLike): boolean {
  try {
    const { env = {} } = process
    if (env['pm_id'] !== undefined && Number(env['NODE_APP_INSTANCE']) > 0) return true
    // A single instance in pm2's cluster mode is a worker, too.
    if (env['pm_id'] !== undefined && env['exec_mode'] === 'cluster_mode') return env['instances'] !== '1'
    if (env['NODE_UNIQUE_ID'] !== undefined) return true
    if (typeof process.send !== 'function') return false
    const cluster = process.getBuiltinModule?.('node:cluster') as { readonly isWorker?: boolean } | undefined
    return cluster?.isWorker === true
  } catch {
    // Deno throws when the environment may not be read. That is no reason to fail.
    return false
  }
}
