import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'

interface Footprint {
  /** What of a store that was dropped is still there. */
  readonly left: readonly string[]
  /** Bytes. */
  readonly leaked: number
  readonly perLimiter: number
  readonly perLimiterUsed: number
  /** What keeps a process going. */
  readonly resources: readonly string[]
}

describe('limiters in a process', () => {
  let footprint: Footprint
  beforeAll(async () => {
    const script = fileURLToPath(new URL('../../support/footprint.mjs', import.meta.url))
    // It ends by itself, or is ended here and the test fails.
    const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script], { timeout: 20_000 })
    footprint = JSON.parse(stdout) as Footprint
  }, 30_000)

  it('set no timer and keep no process going', () => {
    expect(footprint.resources.filter((name) => /Timeout|Immediate|Message|Worker/.test(name))).toEqual([])
  })

  it('are garbage-collected with their store when they are dropped', () => {
    expect(footprint.left).toEqual([])
    expect(footprint.leaked).toBeLessThan(100_000)
  })

  it('cost little, a thousand of them with two limits each', () => {
    expect(footprint.perLimiter).toBeLessThan(8000)
    expect(footprint.perLimiterUsed).toBeLessThan(15_000)
  })
})
