import http from 'node:http'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { rateLimit as forNode } from '../../adapters/node/index.ts'
import { waitingRequests } from '../../src/limiter/waiting.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { createLimiter } from '../../src/limiter/limiter.ts'
import { fixedWindow } from '../../src/engine/factories.ts'
import { createRules } from '../../src/rules/rules.ts'
import type { AnyOptions } from '../../src/testing.ts'
import { ask, dial, serveForTest, statuses, warningsOf } from '../support/http.ts'
import { turns } from '../../src/testing/waiting.ts'
import { FAILURES, unhandled } from '../support/unhandled.ts'
import { listen, serveApp } from './framework.ts'
import { onlyTwoFrameworks } from './frameworks.ts'

type Fails = () => never

const LIMIT = fixedWindow({ quota: 1, window: '1h' })

/** Options with a function that fails before a request is admitted. test/limiter/user-functions.test.ts has keys, limits and costs. */
const before: Readonly<Record<string, (fails: Fails) => AnyOptions>> = {
  keyer: (fails) => ({ keyer: fails, limits: LIMIT }),
  'a limiter of the user': (fails) => ({
    limiter: { ...createLimiter({ keyer: everyone, limits: LIMIT }), consume: fails },
  }),
  skip: (fails) => ({ keyer: everyone, limits: LIMIT, skip: fails }),
  'address of allow': (address) => ({ keyer: everyone, limits: LIMIT, allow: ['192.0.2.1'], address }),
  'address of rules': (address) => ({
    rules: createRules({ policies: [{ name: 'api', key: 'ip', limits: [{ quota: 1, window: '1m' }] }] }, { address }),
  }),
}

/** Options with a function that fails once a request is admitted, or has no influence. The warning is the only effect. */
const harmless: Readonly<Record<string, (fails: Fails) => AnyOptions>> = {
  onDecision: (onDecision) => ({ keyer: everyone, limits: LIMIT, onDecision }),
  refundWhen: (refundWhen) => ({ keyer: everyone, limits: LIMIT, refundWhen }),
  settleWith: (settleWith) => ({ keyer: everyone, limits: LIMIT, settleWith }),
  'the function that settleWith returns': (fails) => ({ keyer: everyone, limits: LIMIT, settleWith: () => fails }),
  resetWhen: (resetWhen) => ({ keyer: everyone, limits: LIMIT, resetWhen }),
}

describe.each(onlyTwoFrameworks)('$name', (harness) => {
  const served = (options: AnyOptions): ReturnType<typeof serveApp> => serveApp(harness, { limits: [options] })

  // What fails in which way is found by the code that frameworks share.
  const failures = Object.entries(FAILURES).filter(
    ([name]) => harness.name === 'Express 5' || ['throws', 'rejects'].includes(name),
  )
  /** An object without a text is an error that some frameworks cannot print. */
  const printed = failures.filter(([name]) => !name.includes('without a text'))

  test.each(Object.entries(before))(
    '%s that fails admits nobody, and its error goes to the framework',
    async (_, optionsOf) => {
      const found = unhandled()
      for (const [name, fails] of printed) {
        const server = await served(optionsOf(fails))
        expect(await statuses(server, 2), name).toEqual([500, 500])
        await turns(3)
        expect([server.ran(), found, server.errors.length], name).toEqual([0, [], 2])
      }
      expect(waitingRequests().size).toBe(0)
    },
  )

  test.each(Object.entries(harmless))('%s that fails changes nothing but causes a warning', async (_, optionsOf) => {
    const found = unhandled()
    for (const [name, fails] of failures) {
      const codes = await warningsOf(async () => {
        expect(await statuses(await served(optionsOf(fails)), 2), name).toEqual([200, 429])
        await turns(10)
      })
      expect([codes, found], name).toEqual([['SLUICE_OUTCOME'], []])
    }
  })

  test.each(['message', 'onDenied'])('%s that fails goes to the framework', async (option) => {
    const found = unhandled()
    for (const [name, fails] of printed) {
      const server = await served({ keyer: everyone, limits: LIMIT, [option]: fails })
      const seen = await statuses(server, 2)
      await turns(3)
      expect([seen, server.ran(), found], name).toEqual([[200, 500], 1, []])
    }
  })
})

describe('onError of node', () => {
  const keyer = (): never => {
    throw new Error('keyer')
  }

  test.each(Object.entries(FAILURES))('that %s is answered by the default, with a warning', async (_, onError) => {
    const found = unhandled()
    const limit = forNode({ keyer, limits: LIMIT, onError })
    const server = await serveForTest(limit((_request, response) => void response.end('ok')))
    const codes = await warningsOf(async () => {
      expect((await ask(server)).status).toBe(500)
      await turns(3)
    })
    expect([codes, found]).toEqual([['SLUICE_FAULT'], []])
  })

  test.each(Object.entries(FAILURES))('that %s closes the socket of an upgrade', async (_, onError) => {
    const found = unhandled()
    const upgrade = forNode({ keyer, limits: LIMIT, onError }).upgrade(() => undefined)
    const server = await listen(http.createServer().on('upgrade', upgrade))
    await warningsOf(async () => {
      const socket = await dial(server, '/', 'Connection: Upgrade\r\nUpgrade: websocket\r\n')
      socket.resume()
      await once(socket, 'close')
      await turns(3)
    })
    expect(found).toEqual([])
  })
})
