import { deepStrictEqual, ok, strictEqual } from 'node:assert'

/** Throws if two values or structures differ. `about` names the value in the error. */
export function equal(actual: unknown, expected: unknown, about?: string): void {
  if (about === undefined) deepStrictEqual(actual, expected)
  else deepStrictEqual({ [about]: actual }, { [about]: expected })
}

/** Throws if `actual` does not have all properties of `expected`. */
export function like(actual: unknown, expected: unknown): void {
  deepStrictEqual(part(actual, expected), expected)
}

/** Throws an error with `message` if a condition is false. */
export function holds(condition: unknown, message: string): void {
  ok(condition, message)
}

/** Throws if `work` does not fail, or if its error does not have all properties of `expected`. */
export async function fails(work: () => unknown, expected: object, about?: string): Promise<void> {
  let caught: unknown
  try {
    await work()
    caught = undefined
  } catch (error) {
    caught = error
  }
  strictEqual(caught === undefined, false, `did not fail: ${about ?? ''}`)
  like(caught, expected)
}

function part(actual: unknown, expected: unknown): unknown {
  if (Array.isArray(expected)) {
    return Array.isArray(actual) ? actual.map((each: unknown, i) => part(each, expected[i])) : actual
  }
  if (typeof expected !== 'object' || expected === null) return actual
  if (typeof actual !== 'object' || actual === null) return actual
  const found = actual as Readonly<Record<string, unknown>>
  return Object.fromEntries(Object.entries(expected).map(([name, each]) => [name, part(found[name], each)]))
}

/**
 * One behaviour to test, for any test runner. If the behaviour is wrong, `run` rejects with the reason.
 * @example for (const { name, run } of behaviours) test(name, run)
 */
export interface Behaviour {
  /** The title of the test. */
  readonly name: string
  /** Rejects when the behaviour is wrong. */
  run(): Promise<void>
}

/** The length and the start of a search. */
export interface SearchOptions {
  /** The number of random cases for each behaviour. Default 200. */
  readonly runs?: number
  /** The seed of the random search. The error of a failure contains it, and the smallest case that fails. Default: a fixed seed. */
  readonly seed?: number
}

/** Makes behaviours from cases by group and name. Each case receives a new world, which is closed after the case. */
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
