/** Shows how much of the logs was read, on a terminal. */
export interface Progress {
  /** Adds bytes that were read. */
  add(bytes: number): void
  /** Removes the bar. */
  close(): void
}

const WIDTH = 30
/** Milliseconds between two updates. */
const INTERVAL = 100
const CLEAR = '\r\u001b[K'

/**
 * Opens a bar on the standard error, if that is a terminal.
 * @param total all bytes; 0 if they are not known
 */
export function openProgress(total: number, output: NodeJS.WriteStream = process.stderr): Progress {
  if (!output.isTTY) return { add: () => undefined, close: () => undefined }
  let [done, next, isShown] = [0, performance.now() + INTERVAL, false]
  return {
    add(bytes) {
      done += bytes
      if (performance.now() < next) return
      next = performance.now() + INTERVAL
      isShown = true
      output.write(`${CLEAR}${bar(done, total)}`)
    },
    close() {
      if (isShown) output.write(CLEAR)
    },
  }
}

function bar(done: number, total: number): string {
  const read = `${Math.floor(done / 1e6).toLocaleString('en')} MB`
  if (total === 0) return read
  const share = Math.min(1, done / total)
  const filled = Math.round(share * WIDTH)
  return `${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)} ${Math.floor(share * 100)} % ${read}`
}
