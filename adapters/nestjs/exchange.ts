import { AsyncLocalStorage } from 'node:async_hooks'
import type { ExecutionContext } from '@nestjs/common'
import type { CostFunc } from '../../src/limiter/options.ts'
import type { Decision } from '../../src/limiter/decision.ts'
import type { NestResponse } from './platform.ts'

/** One call of a handler, about which a guard decides. */
export interface Exchange {
  readonly context: ExecutionContext
  /** What keyers receive. */
  readonly request: object
  /** Absent where there are no headers: in gateways and microservices, and in subscriptions of GraphQL. */
  readonly response: NestResponse | undefined
  /** The `cost` of the handler or its class. */
  readonly cost?: CostFunc<never> | undefined
  decision?: Decision
  /** The media type of the denial. */
  type?: string
  /** The denial, which an exception filter sends. */
  denial?: { readonly status: number; readonly body: string }
  /** What `onDenied` returned. `true` admits the request. */
  answer?: unknown
}

const exchanges = new AsyncLocalStorage<Exchange>()

/** Calls a function. `executionContext` returns the context of this exchange until its promise resolves. */
export function within<Result>(exchange: Exchange, call: () => Result): Result {
  return exchanges.run(exchange, call)
}

/** Returns the exchange that is being decided. */
export function currentExchange(): Exchange | undefined {
  return exchanges.getStore()
}

/**
 * Returns the context of the call that is being decided, for keyers, limits, costs, `skip`, `onDenied` and `onDecision`: its class
 * and its handler, the arguments of a GraphQL field, or the data of a message. Returns `undefined` elsewhere.
 * @example
 * const byEvent = () => executionContext()?.switchToWs().getPattern()
 */
export function executionContext(): ExecutionContext | undefined {
  return exchanges.getStore()?.context
}
