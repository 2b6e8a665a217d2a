import { reasonOf, SluiceError } from '../../util/errors.ts'
import { everyone } from '../../limiter/keyers.ts'
import { equal, fails, holds, like } from '../behaviour.ts'
import type { Answer, AnyOptions, Handler } from './harness.ts'
import { ask, limitHeaders, statuses } from './client.ts'
import { type Cases, fault, laterStore, one, three, type World } from './world.ts'
import { warningsOf } from '../warnings.ts'
import type { AsyncStore, Operation, Reply } from '../../stores/store.ts'

/** Serves a limit whose options fail. Throws if a request reaches the handler. Returns the errors of two requests. */
async function errorsWith({ limit, serve }: World, options: AnyOptions): Promise<readonly unknown[]> {
  let ran = 0
  const limits = [limit(options['limits'] ?? one, options)]
  const server = await serve({ limits, handler: () => ({ text: String(++ran) }) })
  const replies = [await ask(server), await ask(server)]
  const seen = replies.map(({ status, body }) => [status, body])
  equal([...seen, ran], [[500, 'fault'], [500, 'fault'], 0], Object.keys(options).join())
  return server.errors
}

export const faultCases: Cases = {
  'in a keyer, a LimitFunc, a cost or skip reaches the error handling of the framework': async (world) => {
    for (const broken of [fault, async () => fault()])
      for (const option of ['keyer', 'limits', 'cost', 'skip'])
        like(await errorsWith(world, { [option]: broken }), [{ message: 'broken' }, { message: 'broken' }])
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
  'admits no request, whatever value is thrown': async (world) => {
    for (const thrown of [undefined, null, 'route', 'router', 0, false]) {
      const thrower = (): never => {
        // oxlint-disable-next-line typescript/only-throw-error -- the test is about such values
        throw thrown
      }
      for (const keyer of [thrower, async () => thrower()])
        for (const error of await errorsWith(world, { keyer }))
          holds(
            error instanceof SluiceError,
            `throwing ${String(thrown)}: expected a SluiceError, got ${String(error)}`,
          )
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
    const error = { name: 'SluiceError', code: 'INVALID_OPTION' }
    for (const options of [{}, { ...fine, skip: true }, { ...fine, headers: 'draft-5' }, { ...fine, limiter: {} }])
      await fails(() => harness.make(options), error, JSON.stringify(options))
    await fails(() => harness.make({ ...fine, max: 5 }), { ...error, code: 'UNKNOWN_OPTION' })
  },
}

/** Returns a store whose server refuses connections. */
function awayStore(world: World): AsyncStore {
  return {
    ...laterStore(world),
    run(_operation, reply) {
      queueMicrotask(() => reply.failed(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })))
      return undefined
    },
  }
}

export const mode: Handler = ({ decision }) => ({ text: String(decision?.degraded) })

/** Returns a case that does not print the warning of an outage. */
export function quiet(run: (world: World) => Promise<void>): (world: World) => Promise<void> {
  return async function runQuietly(world) {
    await warningsOf(() => run(world))
  }
}

export const outageCases: Cases = {
  'is decided by the same limits in this process, by default': quiet(async (world) => {
    for (const onOutage of [undefined, 'local']) {
      const options = { store: awayStore(world), ...(onOutage && { onOutage }) }
      const server = await world.serve({ limits: [world.limit(three, options)], handler: mode })
      const first = await ask(server)
      equal([first.status, first.body], [200, 'local'])
      like(limitHeaders(first), { 'ratelimit-policy': '"three";q=3;w=60', ratelimit: '"three";r=2;t=60' })
      equal(await statuses(server, 3), [200, 200, 429])
    }
  }),
  'admits every request when it is open, without headers': quiet(async (world) => {
    const options = { store: awayStore(world), onOutage: 'open' }
    const server = await world.serve({ limits: [world.limit(one, options)], handler: mode })
    for (let i = 0; i < 4; i++) {
      const reply = await ask(server)
      equal([reply.status, reply.body, limitHeaders(reply)], [200, 'open', {}])
    }
  }),
  'denies every request with 503 and Retry-After when it is closed': quiet(async (world) => {
    let ran = 0
    const options = { store: awayStore(world), onOutage: 'closed' }
    const handler = (): Answer => ({ text: String(++ran) })
    const server = await world.serve({ limits: [world.limit(one, options)], handler })
    for (let i = 0; i < 4; i++) {
      const reply = await ask(server)
      equal([reply.status, limitHeaders(reply), ran], [503, { 'retry-after': '1' }, 0])
      equal([reply.headers['content-type'], reply.headers['cache-control']], ['application/problem+json', 'no-store'])
      like(JSON.parse(reply.body), {
        type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
        title: 'Temporary Reduced Capacity',
        status: 503,
      })
    }
  }),
}
