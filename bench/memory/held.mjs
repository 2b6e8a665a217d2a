import { setTimeout as pause } from 'node:timers/promises'

/** Bytes in use once all garbage is gone: objects and the slabs beside the heap. Needs --expose-gc. */
export async function held() {
  // Twice, with a turn of the event loop between them: what a finalizer frees is garbage of the second.
  globalThis.gc()
  await pause(10)
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
