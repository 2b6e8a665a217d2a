import type { AddressInfo } from 'node:net'
import 'reflect-metadata'
import {
  All,
  type ArgumentsHost,
  Catch,
  Controller,
  type ExecutionContext,
  type INestApplication,
  Module,
  Req,
  Res,
  type Type,
  UseGuards,
} from '@nestjs/common'
import { APP_GUARD, type AbstractHttpAdapter, NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import type { IncomingMessage } from 'node:http'
import * as forNest from '../../adapters/nestjs/index.ts'
import { type Decision, unlimited } from '../../src/index.ts'
import {
  type Answer,
  type AnyOptions,
  type AppSetup,
  type Exchange,
  type Handler,
  nodeSink,
} from '../../src/testing.ts'
import type { NamedHarness } from './framework.ts'
import { decorate } from './nestjs/app.ts'
import { nodeRequest, sendFastify } from './node-frameworks.ts'

/** A response of Express or a reply of Fastify, with what the handlers here call. */
type Response = import('express').Response & import('fastify').FastifyReply
type Request = { readonly rateLimit?: Decision } & IncomingMessage

function send(response: Response, answer: Answer): unknown {
  if ('raw' in response) return sendFastify(response, answer)
  const { status = 200, text, stream } = answer
  ;(response as import('express').Response).status(status)
  if (stream) return stream(nodeSink(response))
  return (response as import('express').Response).type('text/plain').send(text)
}

/** Creates a controller for a path, with these guards and limits. */
function controllerOf(path: string, handler: Handler, ...decorators: readonly forNest.Decorator[]): Type {
  class TestController {
    async handle(request: Request, response: Response): Promise<void> {
      const set = (name: string, value: string): void => void response.header(name, value)
      send(response, await handler({ request, decision: request.rateLimit, set }))
    }
  }
  Req()(TestController.prototype, 'handle', 0)
  Res()(TestController.prototype, 'handle', 1)
  decorate(TestController, 'handle', All(path) as forNest.Decorator, ...decorators)
  Controller()(TestController)
  return TestController
}

/** Collects errors, and answers them with `fault`. Denials are left to the filter of the module. */
function filterOf(errors: unknown[]): object {
  const denials = new forNest.RateLimitFilter()
  class TestFilter {
    catch(error: unknown, host: ArgumentsHost): void {
      if (error instanceof forNest.RateLimitException) return denials.catch(error, host)
      errors.push(error)
      send(host.switchToHttp().getResponse(), { status: 500, text: 'fault' })
    }
  }
  Catch()(TestFilter)
  return new TestFilter()
}

/** Returns the module of an app. The first limits are those of the module, and the others are separate guards. */
function moduleOf({ limits: [first = NO_LIMITS, ...others], routes, handler }: AppSetup, everywhere: string): Type {
  class TestModule {}
  const own = routes.map(({ path, limit, handler: routed }) =>
    controllerOf(path, routed, ...(limit ? [UseGuards(forNest.createRateLimitGuard(limit as never))] : [])),
  )
  Module({
    imports: [forNest.RateLimitModule.forRoot(first as never)],
    controllers: [...own, controllerOf(everywhere, handler)],
    providers: [
      { provide: APP_GUARD, useClass: forNest.RateLimitGuard },
      ...others.map((options) => ({ provide: APP_GUARD, useValue: forNest.createRateLimitGuard(options as never) })),
    ],
  })(TestModule)
  return TestModule
}

const NO_LIMITS: AnyOptions = { keyer: () => 'everyone', limits: () => unlimited }

function nestOn(
  name: string,
  everywhere: string,
  adapterOf: () => AbstractHttpAdapter,
  prepare: Prepare,
  own: Partial<NamedHarness> = {},
): NamedHarness {
  return {
    name,
    ...own,
    keyers: forNest,
    ...nodeRequest,
    make: (options) => forNest.createRateLimitGuard(options as never),
    onDenied: (answer) => async (context: ExecutionContext, decision: Decision) => {
      const response = context.switchToHttp().getResponse<Response>()
      const { status = response.statusCode, ...others } = await answer(decision)
      send(response, { status, ...others })
    },
    async serve(setup) {
      const errors: unknown[] = []
      const app = await NestFactory.create(moduleOf(setup, everywhere), adapterOf(), {
        logger: false,
        forceCloseConnections: true,
      })
      app.useGlobalFilters(filterOf(errors) as never)
      if (setup.before) prepare(app, setup.before)
      await app.listen(0, '127.0.0.1')
      const { port } = app.getHttpServer().address() as AddressInfo
      return { url: `http://127.0.0.1:${port}`, errors, close: () => app.close() }
    },
  }
}

type Prepare = (app: INestApplication, before: (exchange: Pick<Exchange, 'set'>) => void) => void

export const nestFrameworks: readonly NamedHarness[] = [
  nestOn(
    'Nest 12 on Express',
    '{*all}',
    () => new ExpressAdapter(),
    (app, before) =>
      app.use((_request: unknown, response: Response, next: () => void) => {
        before({ set: (name, value) => void response.setHeader(name, value) })
        next()
      }),
  ),
  nestOn(
    'Nest 12 on Fastify',
    '*',
    () => new FastifyAdapter() as unknown as AbstractHttpAdapter,
    (app, before) =>
      (app as NestFastifyApplication)
        .getHttpAdapter()
        .getInstance()
        .addHook('onRequest', async (_request, reply) =>
          before({ set: (name, value) => void reply.header(name, value) }),
        ),
    // Fastify reads a body before guards run.
    { lacks: ['unread-bodies'] },
  ),
]
