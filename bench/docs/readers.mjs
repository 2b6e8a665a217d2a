/** A row without the build before and without budgets: they guard against slower code, and say nothing to who chooses a package. */
export function forReaders({ values, ratios, ...row }) {
  return { ...row, values: withoutBefore(values), ratios: withoutBefore(ratios), budgets: [], slower: false }
}

/** Readers know the build after as sluice. */
function withoutBefore(named) {
  const entries = Object.entries(named).filter(([name]) => name !== 'before')
  return Object.fromEntries(entries.map(([name, value]) => [name === 'after' ? 'sluice' : name, value]))
}
