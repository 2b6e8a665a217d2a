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
export const Miniflare: Workers['Miniflare'] = workers.Miniflare
export const program: string = workers.program
