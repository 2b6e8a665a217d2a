import { SluiceError } from '../../src/index.ts'

/** Returns the `SluiceError` with which work rejects. */
export async function failureOf(work: unknown): Promise<SluiceError> {
  const error: unknown = await Promise.resolve(work).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof SluiceError) return error
  throw new Error('It does not reject with a SluiceError', { cause: error })
}

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
