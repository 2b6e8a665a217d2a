import { reasonOf, SluiceError } from '../../util/errors.ts'
import { everyone } from '../../limiter/keyers.ts'
import { createLimiter } from '../../limiter/limiter.ts'
import { equal, fails, holds, like } from '../behaviour.ts'
import { type AnyOptions, ask, type Cases, fault, laterStore, one, statuses } from './world.ts'
import type { Operation, Reply } from '../../stores/store.ts'

export const faultCases: Cases = {
  'in a keyer, a LimitFunc, a cost or skip reaches the error handling of the framework': async ({ limit, serve }) => {
    const cases: AnyOptions[] = []
    for (const broken of [fault, async () => fault()]) {
      cases.push({ keyer: broken }, { limits: broken }, { cost: broken }, { skip: broken })
    }
    for (const options of cases) {
      let ran = 0
      const limits = [limit(options['limits'] ?? one, options)]
      const server = await serve({ limits, handler: () => ({ text: String(++ran) }) })
      const { status, body } = await ask(server)
      equal([status, body, ran], [500, 'fault', 0], Object.keys(options).join())
      like(server.errors, [{ message: 'broken' }])
    }
  },
  'of the store reaches it with a neutral message, and the reason as its cause': async (world) => {
    const reason = new SluiceError('STORE_REJECTED', 'Redis could not decide: WRONGTYPE')
    const store = {
      ...laterStore(world),
      run(_: Operation, reply: Reply): undefined {
        reply.failed(reason)
      },
    }
    const server = await world.serve({ limits: [world.limit(one, { store })] })
    equal((await ask(server)).status, 500)
    const [error] = server.errors as SluiceError[]
    equal([error!.code, reasonOf(error!)], ['STORE_REJECTED', 'Requests cannot be counted at the moment'])
    equal(error!.cause, reason)
  },
  'in onDenied reaches the error handling of the framework': async ({ limit, serve }) => {
    for (const onDenied of [fault, async () => fault()]) {
      let ran = 0
      const server = await serve({ limits: [limit(one, { onDenied })], handler: () => ({ text: String(++ran) }) })
      equal(await statuses(server, 2), [200, 500])
      like(server.errors, [{ message: 'broken' }])
      equal(ran, 1)
    }
  },
  'admits no request, whatever value is thrown': async ({ limit, serve }) => {
    for (const thrown of [undefined, null, 'route', 'router', 0, false]) {
      const thrower = (): never => {
        // oxlint-disable-next-line typescript/only-throw-error -- the test is about such values
        throw thrown
      }
      for (const keyer of [thrower, async () => thrower()]) {
        let ran = 0
        const server = await serve({ limits: [limit(one, { keyer })], handler: () => ({ text: String(++ran) }) })
        equal([await statuses(server, 1), ran], [[500], 0], `throwing ${String(thrown)}`)
        holds(server.errors[0] instanceof SluiceError, `expected a SluiceError, got ${String(server.errors[0])}`)
      }
    }
  },
  'in the handler is not changed, and the request stays charged': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)], handler: fault })
    equal(await statuses(server, 2), [500, 429])
    like(server.errors, [{ message: 'broken' }])
  },
}

export const optionCases: Cases = {
  'are refused when the limit is created if they are unknown or wrong': async ({ harness }) => {
    const fine = { keyer: everyone, limits: one }
    const wrong: [string, AnyOptions][] = [
      ['UNKNOWN_OPTION', { ...fine, max: 5 }],
      ['INVALID_OPTION', {}],
      ['INVALID_OPTION', { keyer: everyone }],
      ['INVALID_OPTION', { limits: one }],
      ['INVALID_OPTION', { ...fine, headers: 'draft-5' }],
      ['INVALID_OPTION', { ...fine, headers: true }],
      ['INVALID_OPTION', { ...fine, headerNames: { limit: 'X-Quota' } }],
      ['INVALID_OPTION', { ...fine, headers: 'legacy', headerNames: { limit: 'X-Quota: 1\r\nSet-Cookie' } }],
      ['INVALID_OPTION', { ...fine, skip: true }],
      ['INVALID_OPTION', { ...fine, onDenied: 'no' }],
      ['INVALID_OPTION', { ...fine, refundWhen: 'maybe' }],
      ['INVALID_OPTION', { ...fine, settleWith: 3 }],
      ['INVALID_OPTION', { ...fine, resetWhen: 'always' }],
      ['INVALID_OPTION', { ...fine, onDecision: {} }],
      ['INVALID_OPTION', { ...fine, message: 429 }],
      ['INVALID_OPTION', { ...fine, message: null }],
      ['INVALID_OPTION', { ...fine, message: { toJSON: () => undefined } }],
      ['INVALID_OPTION', { ...fine, message: 'no', onDenied: () => undefined }],
      ['INVALID_OPTION', { ...fine, statusCode: 403, onDenied: () => undefined }],
      ['INVALID_OPTION', { ...fine, statusCode: 200 }],
      ['INVALID_OPTION', { ...fine, statusCode: 600 }],
      ['INVALID_OPTION', { ...fine, statusCode: 429.5 }],
      ['INVALID_OPTION', { ...fine, statusCode: '429' }],
      ['INVALID_OPTION', { ...fine, allow: '127.0.0.1' }],
      ['INVALID_OPTION', { ...fine, allow: ['localhost'] }],
      ['INVALID_OPTION', { ...fine, allow: ['10.0.0.0/33'] }],
      ['INVALID_OPTION', { ...fine, allow: ['10.1'], address: () => undefined }],
      ['INVALID_OPTION', { ...fine, address: () => '127.0.0.1' }],
      ['INVALID_OPTION', { ...fine, allow: ['::1'], address: '127.0.0.1' }],
      ['INVALID_OPTION', { ...fine, onOutage: 'shut' }],
      ['INVALID_OPTION', { ...fine, checks: 'no' }],
      ['INVALID_OPTION', Object.assign(Object.create({ method: 'GET' }) as object, { url: '/' })],
      ['INVALID_OPTION', { limiter: createLimiter(fine), limits: one }],
      ['INVALID_OPTION', { limiter: {} }],
    ]
    for (const [code, options] of wrong) {
      await fails(() => harness.make(options), { name: 'SluiceError', code }, JSON.stringify(options))
    }
  },
}
