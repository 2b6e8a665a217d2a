import { boundedKey } from '../../../util/bounded-key.ts'
import type { Store } from '../../store.ts'
import { redisKey } from '../keys.ts'
import { connectionIn } from '../place.ts'
import { fetchHeld } from './fetch.ts'
import { type Held, held } from './held.ts'

export type { Held, HeldByLimit } from './held.ts'

/**
 * Reads what a key of a limiter has in the Redis of a store, for all processes. Returns `undefined` for a store that does not count in
 * Redis. Rejects with the error of the client.
 * @param isStored true if the key is as the store keeps it. Default false: a long key is hashed
 */
export async function inspectKey(
  store: Store,
  limiter: string,
  key: string,
  isStored = false,
): Promise<Held | undefined> {
  const connection = connectionIn(store)
  if (connection === undefined) return undefined
  const name = redisKey(connection.prefix, limiter, isStored ? key : boundedKey(key))
  return held(name, await fetchHeld(connection.scripts, name))
}
