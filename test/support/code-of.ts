import { SluiceError } from '../../src/index.ts'

/** Returns the code of the `SluiceError` that a function throws, or `'none'`. */
export function codeOf(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    if (error instanceof SluiceError) return error.code
    throw error
  }
  return 'none'
}
