import type { Clock, Store } from '../../src/index.ts'
import { remoteStore, serveStore, type StoreMessage } from '../../src/extend.ts'

/** What a connection does to a message and to an answer. */
export const asJson = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value)) as Value

/** Returns a `remoteStore` of another store, behind a connection that writes JSON. `sent` has what passed. */
export function connectedStore(
  inner: Store,
  options: { clock?: Clock; batch?: boolean } = {},
  sent: StoreMessage[] = [],
): Store {
  const answer = serveStore(inner)
  return remoteStore(async (message) => {
    sent.push(message)
    await new Promise(setImmediate)
    return asJson(await answer(asJson(message)))
  }, options)
}
