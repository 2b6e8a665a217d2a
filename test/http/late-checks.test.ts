// The checks of the set-up are loaded when a rate limit is created: what happens before, and without them.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { perMinute } from '../../src/engine/factories.ts'
import { warningsOf } from '../support/http.ts'
import { turns } from '../../src/testing/waiting.ts'
import { unhandled } from '../support/unhandled.ts'

const CHECKS = '../../src/http/checks/index.ts'

beforeEach(() => vi.resetModules())
afterEach(() => {
  vi.doUnmock(CHECKS)
  vi.resetModules()
})

/** Returns a function that sends a request whose key is a mistake, and returns the status. */
async function limited(checks?: boolean): Promise<() => Promise<number>> {
  const { rateLimit } = await import('../../adapters/fetch/index.ts')
  const options = { keyer: () => '2001:db8::1', limits: perMinute(2), ...(checks !== undefined && { checks }) }
  const handle = rateLimit(options)(() => new Response('ok'))
  return async () => (await handle(new Request('http://localhost/'))).status
}

const load = async (): Promise<void> => (await import('../../src/http/checking.ts')).loadChecks()

test('a request that comes before is counted, and not checked', async () => {
  let ask!: () => Promise<number>
  const codes = await warningsOf(async () => {
    ask = await limited()
    expect(await Promise.all([ask(), ask(), ask()])).toEqual([200, 200, 429])
  })
  expect(codes).toEqual([])
  await load()
  await turns(3)
  expect(await warningsOf(async () => expect(await ask()).toBe(429))).toEqual(['SLUICE_WHOLE_ADDRESS'])
})

test.each([undefined, true])('without them requests are counted, and nothing is thrown: checks: %s', async (checks) => {
  vi.doMock(CHECKS, () => {
    throw new Error('the file is gone')
  })
  const errors = unhandled()
  const ask = await limited(checks)
  await turns(10)
  await expect(load()).rejects.toThrow()
  expect(
    await warningsOf(async () => expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429])),
  ).toEqual([])
  expect(errors).toEqual([])
})

test.each([
  ['development', undefined, true],
  ['production', undefined, true],
  ['production', false, false],
])('with NODE_ENV=%s and checks: %s, requests are checked: %s', async (name, checks, isChecked) => {
  vi.stubEnv('NODE_ENV', name)
  await load()
  const ask = await limited(checks)
  expect(await warningsOf(ask)).toEqual(isChecked ? ['SLUICE_WHOLE_ADDRESS'] : [])
})
