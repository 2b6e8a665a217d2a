import type { ScriptClient } from './clients.ts'
import { transactionFailure } from './failure.ts'
import { programFor } from './library.ts'

/** A program without algorithms. It does not know how long a state counts, so its note of the reset has the expiry of the key. */
const program = programFor([])

/** Deletes the state of a key by its name in Redis, as a reset by a store does. Returns whether there was one. */
export async function resetKey(client: ScriptClient, name: string): Promise<boolean> {
  const [, answer] = (await client.eval(program.script, [name], ['forget'])) as unknown[]
  const deleted = Number(answer)
  if (Number.isNaN(deleted)) throw transactionFailure(String(answer), [])
  return deleted === 1
}
