import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

interface Row {
  readonly name: string
  readonly denied: number
  readonly deniedByLog: number
  readonly tooStrict: number
  readonly tooLenient: number
  readonly ownStrict: number
  readonly ownLenient: number
  readonly worst: number
}

interface Results {
  readonly algorithms: readonly Row[]
  readonly counters: readonly { readonly difference: number; readonly above: number; readonly tooStrict: number }[]
}

/** Runs a part of the experiment in a separate process. */
async function accuracy(...args: string[]): Promise<Results> {
  const command = ['bench/accuracy/run.mjs', '--json', '--decisions', ...args]
  const { stdout } = await promisify(execFile)(process.execPath, command, { maxBuffer: 1e7 })
  return JSON.parse(stdout) as Results
}

describe('npm run accuracy', () => {
  it('finds what each algorithm promises, and the same figures for the same seed', { timeout: 300_000 }, async () => {
    const few = (): Promise<Results> => accuracy('--requests', '5000')
    expect(await few()).toEqual(await few())
    const first = await accuracy('--requests', '150000')
    const rows = new Map(first.algorithms.map((row) => [row.name, row]))
    const log = rows.get('slidingWindowLog')
    expect(log).toMatchObject({ tooStrict: 0, tooLenient: 0, ownStrict: 0, ownLenient: 0, worst: 100 })
    expect(log?.denied).toBe(log?.deniedByLog)
    expect(log?.denied).toBeGreaterThan(1000)
    for (const name of ['slidingWindowBuckets, 10', 'slidingWindowBuckets, 60']) {
      expect(rows.get(name)).toMatchObject({ ownLenient: 0, worst: 100 })
    }
    expect(rows.get('gcra')).toMatchObject({ ownStrict: 0 })
    for (const { worst } of first.algorithms) expect(worst).toBeLessThanOrEqual(200)
    expect(rows.get('gcra')?.worst).toBeGreaterThan(150)
    expect(first.counters.some(({ above, difference }) => above > 0.01 && difference > 0.01)).toBe(true)
  })
})
