/** What becomes of a lock-out that has not ended: `'set'` replaces it, and `'extend'` keeps the one that ends later. */
export type LockMode = 'set' | 'extend'
