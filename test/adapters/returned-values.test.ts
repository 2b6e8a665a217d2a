// What a function in the options of `rateLimit` returns by mistake. It never leaves a request uncounted without an error or a warning.
import { describe, expect, test } from 'vitest'
import { createLimiter, everyone, fixedWindow } from '../../src/index.ts'
import type { AnyOptions, Served } from '../../src/testing.ts'
import { ask, warningsOf } from '../support/http.ts'
import { turns } from '../../src/testing/waiting.ts'
import { serveApp } from './framework.ts'
import { onlyTwoFrameworks } from './frameworks.ts'

const LIMIT = fixedWindow({ quota: 1, window: '1h' })
const base: AnyOptions = { keyer: everyone, limits: LIMIT }

/** What `skip` returns by mistake: no request is admitted. test/limiter/returned-values.test.ts has keys, limits and costs. */
const refused: Readonly<Record<string, () => unknown>> = {
  'an object': () => ({}),
  'a promise of an empty list': async () => [],
  'a text': () => 'false',
  'a number': () => 1,
  'a function': () => () => false,
}

/** Options with a function that returns nothing, or a value that JavaScript takes for false: the request is counted. */
const counted: Readonly<Record<string, AnyOptions>> = {
  'skip: undefined': { ...base, skip: () => undefined },
  'skip: a promise of null': { ...base, skip: async () => null },
  'skip: 0': { ...base, skip: () => 0 },
  'allow with an address of undefined': { ...base, allow: ['0.0.0.0/1', '::/1'], address: () => undefined },
  'refundWhen: undefined': { ...base, refundWhen: () => undefined },
  'refundWhen: a promise of null': { ...base, refundWhen: async () => null },
  'resetWhen: undefined': { ...base, resetWhen: () => undefined },
  'settleWith: undefined': { ...base, settleWith: () => undefined },
}

/** Options with a function that returns a mistake after the response. The request stays charged. */
const warned: Readonly<Record<string, AnyOptions>> = {
  'refundWhen: an object': { ...base, refundWhen: () => ({}) },
  'refundWhen: a promise of an empty list': { ...base, refundWhen: async () => [] },
  'resetWhen: an object': { ...base, resetWhen: () => ({}) },
  'resetWhen: a text': { ...base, resetWhen: async () => 'false' },
  'settleWith: null': { ...base, settleWith: () => null },
  'settleWith: NaN': { ...base, settleWith: () => NaN },
  'settleWith: a negative number': { ...base, settleWith: async () => -1 },
  'settleWith: a text': { ...base, settleWith: () => '0' },
  'settleWith: the word reset': { ...base, settleWith: () => 'reset' },
  'settleWith: a function that returns undefined': { ...base, settleWith: () => () => undefined },
}

describe.each(onlyTwoFrameworks)('$name', (harness) => {
  const served = (options: AnyOptions): ReturnType<typeof serveApp> => serveApp(harness, { limits: [options] })

  async function statuses(server: Served, count: number): Promise<readonly number[]> {
    const found: number[] = []
    for (let i = 0; i < count; i++) {
      found.push((await ask(server)).status)
      await turns(10)
    }
    return found
  }

  test.each(Object.entries(refused))('skip: %s admits nobody, and the error goes to the framework', async (_, skip) => {
    const server = await served({ ...base, skip })
    expect([await statuses(server, 3), server.ran()]).toEqual([[500, 500, 500], 0])
    expect(server.errors).toEqual(
      Array(3).fill(expect.objectContaining({ name: 'SluiceError', code: 'INVALID_OPTION' })),
    )
  })

  test.each([
    ...Object.entries(counted).map(([name, options]) => [name, options, []] as const),
    ...Object.entries(warned).map(([name, options]) => [name, options, ['SLUICE_OUTCOME']] as const),
  ])('%s leaves a request charged', async (_, options, warnings) => {
    const codes = await warningsOf(async () => expect(await statuses(await served(options), 2)).toEqual([200, 429]))
    expect(codes).toEqual(warnings)
  })

  test('true skips, refunds and resets', async () => {
    for (const option of ['skip', 'refundWhen', 'resetWhen']) {
      for (const answer of [() => true, async () => true]) {
        const server = await served({ ...base, [option]: answer })
        expect(await statuses(server, 3), option).toEqual([200, 200, 200])
      }
    }
  })

  test('a limiter of the user that decides nothing admits nobody', async () => {
    for (const decision of [undefined, null, {}]) {
      const limiter = { ...createLimiter({ keyer: everyone, limits: LIMIT }), consume: () => decision }
      const server = await served({ limiter })
      expect([await statuses(server, 1), server.ran()]).toEqual([[500], 0])
    }
  })
})
