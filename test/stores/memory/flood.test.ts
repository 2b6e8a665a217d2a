import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

interface Memory {
  readonly rss: number
  /** Bytes in the heap and in its buffers. */
  readonly held: number
}

interface Flood {
  readonly before: Memory
  /** After as many keys as the store holds, five times as many, ten times as many. */
  readonly marks: readonly [Memory, Memory, Memory]
  readonly after: Memory
  readonly early: number
  readonly full: number
  readonly admitted: number
}

const MEGABYTE = 2 ** 20

it(
  'three million keys leave a store of 300,000 as large as it was, and let no denied key in',
  { timeout: 300_000 },
  async () => {
    const script = fileURLToPath(new URL('../../support/flood.mjs', import.meta.url))
    const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', '--max-old-space-size=192', script])
    const { before, marks, after, early, full, admitted } = JSON.parse(stdout) as Flood
    expect(early).toBe(0)
    expect(full).toBe(1)
    // Each key that found room was admitted; the rest shared what the counters let through.
    expect(admitted).toBeGreaterThanOrEqual(300_000 - 1000)
    expect(marks[2].held - marks[1].held).toBeLessThan(2 * MEGABYTE)
    expect(marks[2].rss - marks[1].rss).toBeLessThan(60 * MEGABYTE)
    expect(after.held - before.held).toBeLessThan(2 * MEGABYTE)
  },
)
