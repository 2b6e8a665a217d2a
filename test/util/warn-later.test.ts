// The texts of most warnings are loaded by the first of them.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type * as Sluice from '../../src/index.ts'

const WARNINGS = '../../src/util/warnings/index.ts'

let sluice: typeof Sluice
let isLoaded: boolean
let canLoad: boolean
const emitted: string[] = []
beforeEach(async () => {
  vi.resetModules()
  isLoaded = false
  canLoad = true
  emitted.length = 0
  vi.spyOn(process, 'emitWarning').mockImplementation(((text: string, { code }: { code: string }) => {
    emitted.push(`${code}: ${text}`)
  }) as typeof process.emitWarning)
  vi.doMock(WARNINGS, async (original) => {
    isLoaded = true
    if (!canLoad) throw new Error('no such file')
    return original()
  })
  sluice = await import('../../src/index.ts')
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.doUnmock(WARNINGS)
  vi.resetModules()
})

const keyer = (): string => 'ann'

test('a program without mistakes loads nothing', async () => {
  const limiter = sluice.createLimiter({ keyer, limits: sluice.perMinute(1) })
  expect([limiter.consume(1).allowed, limiter.consume(1).allowed]).toEqual([true, false])
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(isLoaded).toBe(false)
})

test('the first warning loads the texts, and the next one is emitted at once', async () => {
  sluice.createLimiter({ keyer, limits: [] })
  expect(emitted).toEqual([])
  await vi.waitFor(() => expect(emitted).toHaveLength(1))
  sluice.createLimiter({ keyer, limits: [], name: 'api' })
  expect(emitted).toEqual([
    expect.stringMatching(/^SLUICE_NO_LIMITS: .* limiter "default" admits every request\. \(sluice\/docs/),
    expect.stringContaining('limiter "api" admits every request'),
  ])
})

test('a warning whose text cannot be loaded names its page', async () => {
  canLoad = false
  sluice.createLimiter({ keyer, limits: [], name: 'api' })
  await vi.waitFor(() => expect(emitted).toHaveLength(1))
  expect(emitted[0]).toBe('SLUICE_NO_LIMITS: api (sluice/docs/reference/errors-and-warnings.md#sluice_no_limits)')
})
