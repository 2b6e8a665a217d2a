import type { AddressInfo } from 'node:net'
import 'reflect-metadata'
import {
  Controller,
  Get,
  type INestApplication,
  type LoggerService,
  Module,
  type ModuleMetadata,
  type Provider,
  type Type,
} from '@nestjs/common'
import { type AbstractHttpAdapter, APP_GUARD, NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { afterTest } from '../../support/after-test.ts'
import {
  type Decorator,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitOptions,
} from '../../../adapters/nestjs/index.ts'

export const platforms: Readonly<Record<string, () => AbstractHttpAdapter>> = {
  Express: () => new ExpressAdapter(),
  Fastify: () => new FastifyAdapter() as unknown as AbstractHttpAdapter,
}

/** Decorates a class, as TypeScript does with `experimentalDecorators`. */
export function decorateClass<Class extends Type>(type: Class, ...decorators: readonly ClassDecorator[]): Class {
  for (const each of decorators.toReversed()) each(type)
  return type
}

export function decorate(type: Type, method: string, ...decorators: readonly MethodDecorator[]): void {
  const prototype = type.prototype as object
  const descriptor = Object.getOwnPropertyDescriptor(prototype, method)!
  for (const each of decorators.toReversed()) each(prototype, method, descriptor)
}

/** Creates a controller `Cats` with the routes `/cats/first` and `/cats/second`, and `/dogs/only`. */
export function controllers(own: {
  readonly cats?: readonly Decorator[]
  readonly first?: readonly Decorator[]
  readonly second?: readonly Decorator[]
}): Type[] {
  class Cats {
    first(): string {
      return 'first'
    }
    second(): string {
      return 'second'
    }
  }
  class Dogs {
    only(): string {
      return 'only'
    }
  }
  decorate(Cats, 'first', Get('first'), ...(own.first ?? []))
  decorate(Cats, 'second', Get('second'), ...(own.second ?? []))
  decorate(Dogs, 'only', Get('only'))
  return [decorateClass(Cats, Controller('cats'), ...(own.cats ?? [])), decorateClass(Dogs, Controller('dogs'))]
}

export function moduleOf(metadata: ModuleMetadata): Type {
  class TestModule {}
  return decorateClass(TestModule, Module(metadata))
}

/** Creates an app module with the limits of the module and a guard for all routes. */
export function limitedModule<Request, Response>(
  options: RateLimitOptions<Request, Response>,
  { imports = [], providers = [], ...others }: ModuleMetadata,
): Type {
  const guard: Provider = { provide: APP_GUARD, useClass: RateLimitGuard }
  return moduleOf({
    ...others,
    imports: [RateLimitModule.forRoot(options), ...imports],
    providers: [...providers, guard],
  })
}

/** Starts an app on a free port, and closes it after the test. */
export async function start(
  module: Type,
  { platform = 'Express', prepare, logger = false }: StartOptions = {},
): Promise<string> {
  const app = await NestFactory.create(module, platforms[platform]!(), {
    logger,
    abortOnError: false,
    forceCloseConnections: true,
  })
  afterTest(() => app.close())
  prepare?.(app)
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  return `http://127.0.0.1:${port}`
}

export interface StartOptions {
  readonly platform?: string
  readonly prepare?: (app: INestApplication) => void
  readonly logger?: LoggerService | false
}

/** Asks for paths, one after the other. Returns the statuses. */
export async function statuses(url: string, ...paths: readonly string[]): Promise<number[]> {
  const seen: number[] = []
  for (const path of paths) seen.push((await fetch(`${url}${path}`)).status)
  return seen
}
