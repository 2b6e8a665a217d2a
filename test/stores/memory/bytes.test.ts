// The memory of a memory store has a bound in bytes, and is released when it is not used.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const MEGABYTE = 2 ** 20
const script = fileURLToPath(new URL('../../support/bytes.mjs', import.meta.url))

async function measured<Bytes>(scenario: string): Promise<Bytes> {
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script, scenario])
  return JSON.parse(stdout) as Bytes
}

describe('the memory of a store', { timeout: 120_000 }, () => {
  it('does not grow with the number and the quotas of keys beyond maxKeys, and is released after a flood', async () => {
    const { grown, flooded, left } = await measured<{ grown: number; flooded: number; left: number }>('quotas')
    // The counters of 100,000 keys take 1.4 MB.
    expect(grown).toBeLessThan(4 * MEGABYTE)
    expect(flooded).toBeLessThan(4 * MEGABYTE)
    expect(left).toBeLessThan(3 * MEGABYTE)
  })

  it('does not grow with the names of limits, and is released when they are unused', async () => {
    const { marks, left } = await measured<{ marks: [number, number]; left: number }>('limitNames')
    // 10,000 tables, and the counters that the keys of all others share.
    expect(marks[0]).toBeLessThan(60 * MEGABYTE)
    expect(marks[1] - marks[0]).toBeLessThan(8 * MEGABYTE)
    // The engine's own tables of weak references stay as large as they were: 90 bytes a name.
    expect(left).toBeLessThan(15 * MEGABYTE)
  })

  it('does not grow with the names of limiters, and is released when they are dropped', async () => {
    const { grown, left } = await measured<{ grown: number; left: number }>('limiterNames')
    expect(grown).toBeLessThan(60 * MEGABYTE)
    expect(left).toBeLessThan(10 * MEGABYTE)
  })

  it('is released when the entries of a log expire, whether or not their key is in use', async () => {
    const { grown, inUse, left } = await measured<{ grown: number; inUse: number; left: number }>('entries')
    expect(grown).toBeGreaterThan(6 * MEGABYTE)
    expect(inUse).toBeLessThan(2 * MEGABYTE)
    expect(left).toBeLessThan(2 * MEGABYTE)
  })
})
