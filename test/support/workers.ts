import { importOwn } from './own-packages.ts'

/** A Worker that runs in workerd. */
export interface TestWorker {
  readonly ready: Promise<unknown>
  dispatchFetch(url: string, init?: RequestInit): Promise<Response>
  dispose(): Promise<void>
}

interface Workers {
  readonly Miniflare: new (options: object) => TestWorker
  /** The path of workerd. */
  readonly program: string
}

const workers = await importOwn<Workers>('workers')

/**
 * Starts a Worker, until it is disposed.
 * @param durableObjects by the names of their bindings
 * @param compatibilityFlags by default that for modules of Node: the suite of stores compares with `node:assert`
 */
export async function startWorker(
  script: string,
  durableObjects: object = {},
  compatibilityFlags: readonly string[] = ['nodejs_compat'],
): Promise<TestWorker> {
  const compatibilityDate = '2026-04-01'
  const worker = new workers.Miniflare({ modules: true, script, compatibilityDate, compatibilityFlags, durableObjects })
  await worker.ready
  return worker
}

export const program: string = workers.program
