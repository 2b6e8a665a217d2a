import { builtin } from '../../util/builtin.ts'
import { isTestRun, type ProcessLike } from '../../util/warn.ts'
import { warnLater, withWarnings } from '../../util/warn-later.ts'
import type { Threads } from '../../util/warnings/threads.ts'

let isChecked = false
let hasWarned = false

/** Warns once that a memory store, or SQLite in memory, counts only for its own process or thread, if the app has several. */
export function warnInCluster(): void {
  const { process } = globalThis as { process?: ProcessLike }
  if (isChecked || process === undefined) return
  isChecked = true
  if (isOneOfSeveral(process)) return warnOnce()
  const threads = builtin('node:worker_threads') as Partial<Threads> | undefined
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
 * Returns true in a worker of `node:cluster`, in one of several instances under pm2, and in AWS Lambda, where each instance serves one request at a time. Test
 * runners start neither.
 *
 * Node removes `NODE_UNIQUE_ID` from the environment of a worker before the application runs, so `node:cluster` itself is asked. This module is not
 * loaded in a process without a channel to a parent.
 */
export function isOneOfSeveral(process: ProcessLike): boolean {
  try {
    const { env = {} } = process
    if (env['pm_id'] !== undefined && Number(env['NODE_APP_INSTANCE']) > 0) return true
    // In the cluster mode of pm2, a single instance is also a worker.
    if (env['pm_id'] !== undefined && env['exec_mode'] === 'cluster_mode') return env['instances'] !== '1'
    if (env['NODE_UNIQUE_ID'] !== undefined) return true
    // Tests of functions also set the variable.
    if (env['AWS_LAMBDA_FUNCTION_NAME'] !== undefined && !isTestRun(process)) return true
    if (typeof process.send !== 'function') return false
    const cluster = process.getBuiltinModule?.('node:cluster') as { readonly isWorker?: boolean } | undefined
    return cluster?.isWorker === true
  } catch {
    // Deno throws if the program may not read the environment. The store still works then.
    return false
  }
}
