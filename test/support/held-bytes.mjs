/** Returns the bytes in the heap and in buffers. Each collection finds more, and buffers are freed only later. Needs --expose-gc. */
export async function heldBytes() {
  for (let collections = 0; collections < 3; collections++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
