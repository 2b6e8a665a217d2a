/** Functions that end what a test has started. `setup.ts` calls them after it. */
const ends: (() => unknown)[] = []

/** Calls functions after the test. Later ones are called first. */
export function afterTest(...given: readonly (() => unknown)[]): void {
  ends.push(...given)
}

export async function endAll(): Promise<void> {
  for (const end of ends.splice(0).toReversed()) await end()
}
