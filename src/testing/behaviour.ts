/**
 * Something that has to hold, for any test runner. `run` rejects, saying what is wrong, when it does not.
 * @example for (const { name, run } of behaviours) test(name, run)
 */
export interface Behaviour {
  readonly name: string
  run(): Promise<void>
}

/** How long to search, and from where. */
export interface SearchOptions {
  /** Cases tried for each behaviour. Default 200. */
  readonly runs?: number
  /** Where the random search begins; a failure names it, with the smallest case that fails. Default: always the same. */
  readonly seed?: number
}

/** Cases by subject, then by name, each handed what `make` makes for it, which is closed in the end. */
export function behavioursOf<World extends { close(): Promise<void> }>(
  subjects: Readonly<Record<string, Readonly<Record<string, (world: World) => Promise<void>>>>>,
  make: () => World | Promise<World>,
): readonly Behaviour[] {
  return Object.entries(subjects).flatMap(([subject, cases]) =>
    Object.entries(cases).map(([name, check]) => ({
      name: `${subject} ${name}`,
      async run() {
        const world = await make()
        try {
          await check(world)
        } finally {
          await world.close()
        }
      },
    })),
  )
}
