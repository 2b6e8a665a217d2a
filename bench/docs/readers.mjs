/** Groups that compare parts of this package with each other. They guard against slower code. */
const INTERNAL =
  /^(Bytes per decision|Memory of|A flood|Redis, one limit, functions forbidden|Redis, quota)|^Leases, .*(median|calls of the server)|^Leases, cold keys, (?!decisions per second$)/

/** Returns true for what readers compare. */
export function isForReaders({ group }) {
  return !INTERNAL.test(group)
}

/** A row without the build before and without budgets: they guard against slower code, and say nothing to who chooses a package. */
export function forReaders({ values, ratios, ...row }) {
  return { ...row, values: withoutBefore(values), ratios: withoutBefore(ratios), budgets: [], slower: false }
}

/** Readers know the build after as sluice. */
function withoutBefore(named) {
  const entries = Object.entries(named).filter(([name]) => name !== 'before')
  return Object.fromEntries(entries.map(([name, value]) => [name === 'after' ? 'sluice' : name, value]))
}
