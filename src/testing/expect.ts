import { deepStrictEqual, ok, strictEqual } from 'node:assert'

/** The same value, or the same structure; `about` says of what. */
export function equal(actual: unknown, expected: unknown, about?: string): void {
  if (about === undefined) deepStrictEqual(actual, expected)
  else deepStrictEqual({ [about]: actual }, { [about]: expected })
}

/** The same as far as `expected` goes. */
export function like(actual: unknown, expected: unknown): void {
  deepStrictEqual(part(actual, expected), expected)
}

export function holds(condition: unknown, what: string): void {
  ok(condition, what)
}

/** Rejected, with an error that is like this. */
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
