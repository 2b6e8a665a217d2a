import { shared } from './copies.ts'

const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } }

/**
 * True in Cloudflare Workers. There a timer, and an answer from outside, belong to the request that has asked for it, and end with it. So
 * requests share none, and what is due later is done by a later request.
 */
export const isWorker: boolean = navigator?.userAgent === 'Cloudflare-Workers'

type WaitUntil = (work: Promise<unknown>) => void

const runtime = shared('runtime', () => ({ waitUntil: undefined as WaitUntil | undefined }))

/** Sets how a request is kept until its work is done. */
export function keepRequestsBy(waitUntil: WaitUntil): void {
  runtime.waitUntil = waitUntil
}

/** Keeps the request that runs now until its work is done, if the runtime would end it with its response. Else does nothing. */
export function outlive(work: Promise<unknown>): void {
  try {
    runtime.waitUntil?.(work)
  } catch {
    // No request runs now, so nothing ends.
  }
}
