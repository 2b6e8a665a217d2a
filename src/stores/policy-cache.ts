/** What a store keeps with a policy, so that it computes it once. */
export interface CacheEntry {
  /** The store, or another object that made the entry. */
  readonly owner: object
}

/** A policy, as far as it keeps an entry. */
interface Cache {
  cache: CacheEntry | undefined
}

/** Returns what `owner` keeps with a policy. Makes it if that owner has nothing there yet. */
export function cached<Entry extends CacheEntry, Policy extends Cache>(
  policy: Policy,
  owner: object,
  make: (policy: Policy) => Entry,
): Entry {
  if (policy.cache?.owner !== owner) policy.cache = make(policy)
  return policy.cache as Entry
}
