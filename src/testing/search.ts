// This is a separate file so that public types do not depend on the types of fast-check.
import type * as FastCheck from 'fast-check'
import { SluiceError } from '../util/errors.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import type { SearchOptions } from './behaviour.ts'

/** The module fast-check. It is loaded when a search starts. */
export type Fc = typeof FastCheck

/**
 * Searches for a case that fails, and makes it as small as possible. Throws `NOT_APPLICABLE` without fast-check.
 * @param check throws if a case is wrong
 */
export async function search<Case>(
  { runs = 200, seed = 20_260_101 }: SearchOptions,
  cases: (fc: Fc) => FastCheck.Arbitrary<Case>,
  check: (of: Case) => MaybePromise<void>,
): Promise<void> {
  const fc = await load()
  const property = fc.asyncProperty(cases(fc), async (each) => check(each))
  await fc.assert(property, { numRuns: runs, seed })
}

async function load(): Promise<Fc> {
  try {
    return await import('fast-check')
  } catch (cause) {
    throw new SluiceError('NOT_APPLICABLE', 'The suites need fast-check. Install it: npm install -D fast-check', {
      cause,
    })
  }
}
