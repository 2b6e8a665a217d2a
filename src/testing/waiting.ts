/** Waits until a condition is true. Use it for events on the other side of a socket. */
export async function until(so: () => unknown, what = 'it'): Promise<void> {
  const deadline = Date.now() + 5000
  while (!so()) {
    if (Date.now() > deadline) throw new Error(`No sign of ${what} within 5 s`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** Waits for turns of the event loop. Then work without timers is done. */
export async function turns(count = 1): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}
