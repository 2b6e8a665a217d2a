import { setTimeout as pause } from 'node:timers/promises'

/** Bytes in use after garbage collection, on the heap and outside of it. Needs --expose-gc. */
export async function bytesInUse() {
  // A finalizer runs in the turn after a collection, and what it frees goes with the second.
  globalThis.gc()
  await pause(10)
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
