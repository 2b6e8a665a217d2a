/**
 * One behaviour to test, for any test runner. `run` rejects with what is wrong.
 * @example for (const { name, run } of behaviours) test(name, run)
 */
export interface Behaviour {
  /** What is checked, as the title of a test. */
  readonly name: string
  /** Rejects when the behaviour is wrong. */
  run(): Promise<void>
}

/** How long to search, and where to start. */
export interface SearchOptions {
  /** Random cases for each behaviour. Default 200. */
  readonly runs?: number
  /** The seed of the random search. A failure names it, with the smallest case that fails. Default: a fixed seed. */
  readonly seed?: number
}

/** Returns behaviours from cases by group and name. Each case receives a new world, which is closed at the end. */
export function behavioursOf<World extends { close(): Promise<void> }>(
  groups: Readonly<Record<string, Readonly<Record<string, (world: World) => Promise<void>>>>>,
  make: () => World | Promise<World>,
): readonly Behaviour[] {
  return Object.entries(groups).flatMap(([group, cases]) =>
    Object.entries(cases).map(([name, check]) => ({
      name: `${group} ${name}`,
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
