/** What a worker has been asked. */
export const job = JSON.parse(process.argv[2])

/** Gives the answer, and ends. */
export function answer(result) {
  process.send(result, () => process.exit())
}

// Whoever asked is gone.
process.on('disconnect', () => process.exit())
