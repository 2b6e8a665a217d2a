import { shared } from '../util/copies.ts'

/** A store, by its identity, in a place that several connections can reach. */
interface Visitor {
  readonly identity: WeakRef<object>
  isOpen(): boolean
}

const visitors = shared('visitors', () => new Map<string, readonly Visitor[]>())
const places = shared('places', () => new WeakMap<object, readonly string[]>())

type Listener = (one: object, other: object) => void
const neighbours = shared('neighbours', (): { listener?: Listener } => ({}))

/** Sets the function that is called with the identities of two stores when it is found that they count in the same place. */
export function whenNeighbours(listener: Listener): void {
  neighbours.listener = listener
}

/**
 * Registers a place in which a store counts, such as a server and a prefix. Stores over different connections can have the same
 * place, and a store can be known by several names of its place.
 * @param identity the `identity` of the store
 * @param isOpen returns false once its connection is closed. It must not keep the connection in memory
 */
export function registerPlace(identity: object, place: string, isOpen: () => boolean): void {
  for (const [name, each] of visitors) if (!each.some(isThere)) visitors.delete(name)
  const others = (visitors.get(place) ?? []).filter(isThere)
  visitors.set(place, [...others, { identity: new WeakRef(identity), isOpen }])
  places.set(identity, [...(places.get(identity) ?? []), place])
  for (const other of others) neighbours.listener?.(identity, other.identity.deref()!)
}

function isThere({ identity, isOpen }: Visitor): boolean {
  return identity.deref() !== undefined && isOpen()
}

/** Returns the identities of other stores that count in the same place, and whose connection is open. */
export function identitiesBeside(identity: object): readonly object[] {
  const all = (places.get(identity) ?? []).flatMap((place) => visitors.get(place) ?? [])
  const others = all.filter(isThere).map((each) => each.identity.deref()!)
  return [...new Set(others)].filter((each) => each !== identity)
}
