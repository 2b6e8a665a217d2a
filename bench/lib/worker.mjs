/** The job of this worker. */
export const job = JSON.parse(process.argv[2])

/** Sends the result and ends this process. */
export function finish(result) {
  process.send(result, () => process.exit())
}

// The process that started this one is gone.
process.on('disconnect', () => process.exit())
