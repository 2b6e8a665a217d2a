import { shared } from './copies.ts'

const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } }

/**
 * True in Cloudflare Workers. There, a timer or an answer from outside belongs to the request that asked for it, and ends with this request. So
 * requests do not share them, and later work is done by a later request.
 */
export const isWorker: boolean = navigator?.userAgent === 'Cloudflare-Workers'

type WaitUntil = (work: Promise<unknown>) => void

const runtime = shared('runtime', () => ({ waitUntil: undefined as WaitUntil | undefined }))

/** Sets the function that keeps a request until its work is done. */
export function keepRequestsBy(waitUntil: WaitUntil): void {
  runtime.waitUntil = waitUntil
}

/** Keeps the current request until its work is done, if the runtime would end it with its response. Otherwise does nothing. */
export function outlive(work: Promise<unknown>): void {
  try {
    runtime.waitUntil?.(work)
  } catch {
    // There is no current request.
  }
}
