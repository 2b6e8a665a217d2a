import { deepStrictEqual, ok, strictEqual } from 'node:assert'

/** Throws unless both are the same value or structure. `about` names the value in the error. */
export function equal(actual: unknown, expected: unknown, about?: string): void {
  if (about === undefined) deepStrictEqual(actual, expected)
  else deepStrictEqual({ [about]: actual }, { [about]: expected })
}

/** Throws unless `actual` has all that `expected` has. */
export function like(actual: unknown, expected: unknown): void {
  deepStrictEqual(part(actual, expected), expected)
}

/** Throws `message` unless a condition is true. */
export function holds(condition: unknown, message: string): void {
  ok(condition, message)
}

/** Throws unless `work` fails with an error that has all that `expected` has. */
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
