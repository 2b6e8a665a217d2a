import { shared } from '../util/copies.ts'

/** A store, by its identity, in a place that several connections can reach. */
interface Visitor {
  readonly identity: WeakRef<object>
  isOpen(): boolean
}

const visitors = shared('visitors', () => new Map<string, readonly Visitor[]>())
const places = shared('places', () => new WeakMap<object, string>())

/**
 * Registers the place in which a store counts, such as a server and a prefix. Stores over different connections can have the same
 * place.
 * @param identity the `identity` of the store
 * @param isOpen returns false once its connection is closed. It must not keep the connection in memory
 */
export function registerPlace(identity: object, place: string, isOpen: () => boolean): void {
  const others = (visitors.get(place) ?? []).filter((each) => each.identity.deref() !== undefined && each.isOpen())
  visitors.set(place, [...others, { identity: new WeakRef(identity), isOpen }])
  places.set(identity, place)
}

/** Returns the identities of other stores that count in the same place, and whose connection is open. */
export function identitiesBeside(identity: object): readonly object[] {
  const place = places.get(identity)
  if (place === undefined) return []
  const open = visitors.get(place)!.filter((each) => each.isOpen())
  return open.flatMap((each) => each.identity.deref() ?? []).filter((each) => each !== identity)
}
