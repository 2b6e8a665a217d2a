import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { once } from 'node:events'
import { builtPackage } from './built.ts'

const WORKER = fileURLToPath(new URL('requests-worker.mjs', import.meta.url))

/** The store that the processes open. */
export interface SharedStore {
  readonly kind: 'redis' | 'cluster' | 'postgres' | 'mysql'
  readonly url: string
  readonly table?: string
  /** True: with a guard, and its defaults. */
  readonly isGuarded?: boolean
}

/** What several processes do at the same time. */
export interface Race {
  /** The limiters that are stacked. One with `key` charges this key; else it charges the key that is asked for. */
  readonly members: readonly { readonly name: string; readonly key?: string; readonly limits: readonly object[] }[]
  readonly keys: readonly string[]
  /** The requests of each process, and how many it sends at the same time. */
  readonly asks: number
  readonly inFlight: number
}

/** Processes that race for limits. */
export interface RacingProcesses {
  /** Returns how many requests all of them admitted, by key. */
  race(race: Race): Promise<Record<string, number>>
  kill(): void
}

export async function startProcesses(count: number, store: SharedStore): Promise<RacingProcesses> {
  const words = [JSON.stringify({ package: await builtPackage(), ...store })]
  const children = Array.from({ length: count }, () => fork(WORKER, words, { execArgv: [] }))
  const messages = (): Promise<unknown[][]> => Promise.all(children.map((child) => once(child, 'message')))
  const answersTo = (message: object | string): Promise<unknown[][]> => {
    const answers = messages()
    for (const child of children) child.send(message)
    return answers
  }
  await messages()
  return {
    async race(race) {
      await answersTo(race)
      const sum: Record<string, number> = {}
      for (const [admitted] of (await answersTo('go')) as [Record<string, number>][])
        for (const [key, number] of Object.entries(admitted)) sum[key] = (sum[key] ?? 0) + number
      return sum
    },
    kill() {
      for (const child of children) child.kill()
    },
  }
}

/** Runs one race of so many processes. */
export async function runProcesses(count: number, store: SharedStore, race: Race): Promise<Record<string, number>> {
  const processes = await startProcesses(count, store)
  try {
    return await processes.race(race)
  } finally {
    processes.kill()
  }
}
