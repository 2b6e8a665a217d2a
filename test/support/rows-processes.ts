import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { once } from 'node:events'

const WORKER = fileURLToPath(new URL('rows-worker.mjs', import.meta.url))

/** What several processes do at the same time, on one table. */
export interface Job {
  readonly kind: string
  readonly url: string
  readonly table: string
  /** The limiters that are stacked. One with `key` charges this key; else it charges the key that is asked for. */
  readonly members: readonly { readonly name: string; readonly key?: string; readonly limits: readonly object[] }[]
  readonly keys: readonly string[]
  /** The requests of each process, and how many it sends at the same time. */
  readonly asks: number
  readonly inFlight: number
}

/** Runs so many processes, and returns how many requests they admitted, by key. */
export async function runProcesses(home: string, count: number, job: Job): Promise<Record<string, number>> {
  const children = Array.from({ length: count }, () => fork(WORKER, [JSON.stringify({ package: home, ...job })]))
  try {
    await Promise.all(children.map((child) => once(child, 'message')))
    const answers = children.map((child) => once(child, 'message') as Promise<[{ admitted: Record<string, number> }]>)
    for (const child of children) child.send('go')
    const sum: Record<string, number> = {}
    for (const [{ admitted }] of await Promise.all(answers))
      for (const [key, number] of Object.entries(admitted)) sum[key] = (sum[key] ?? 0) + number
    return sum
  } finally {
    for (const child of children) child.kill()
  }
}
