import { Session } from 'node:inspector/promises'

const root = new URL('../../', import.meta.url).pathname

interface Called {
  /** Relative to the root, such as `src/http/checks/created.ts`. */
  readonly file: string
  readonly name: string
}

/** Returns the functions of `src/` and `adapters/`, except the suites, that run during `work`. Those without a name are omitted: Vitest reads imported names by such. */
export async function functionsIn(work: () => unknown): Promise<readonly Called[]> {
  const session = new Session()
  session.connect()
  try {
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    await session.post('Profiler.takePreciseCoverage')
    await work()
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result.flatMap(({ url, functions }) => {
      const file = url.replace('file://', '').slice(root.length)
      if (!/^(?:src|adapters)\/(?!testing\/)/.test(file)) return []
      const called = functions.filter(({ functionName, ranges }) => functionName !== '' && ranges[0]!.count > 0)
      return called.map(({ functionName }) => ({ file, name: functionName }))
    })
  } finally {
    session.disconnect()
  }
}
