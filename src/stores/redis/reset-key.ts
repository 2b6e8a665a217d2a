import type { ScriptClient } from './clients.ts'
import { transactionFailure } from './failure.ts'
import { programFor } from './library.ts'

/** The program without algorithms. It keeps as long what a reset leaves as Redis would have kept the state. */
const program = programFor([])

/** Deletes the state of a key by its name in Redis, as a reset by a store does. Returns whether there was one. */
export async function resetKey(client: ScriptClient, name: string): Promise<boolean> {
  const [, answer] = (await client.eval(program.script, [name], ['forget'])) as unknown[]
  const deleted = Number(answer)
  if (Number.isNaN(deleted)) throw transactionFailure(String(answer), [])
  return deleted === 1
}
