import type { ContextType, ExecutionContext } from '@nestjs/common'
import { SluiceError } from '../../src/util/errors.ts'
import { isResponse, type NestResponse } from './platform.ts'

/** The context of an operation of GraphQL, as the drivers for Apollo and Mercurius make it. */
interface GraphqlContext {
  readonly req?: object
  readonly request?: object
  readonly res?: unknown
  readonly reply?: { readonly request?: object }
}

/** The kind of a call: `'http'`, `'graphql'`, `'ws'` or `'rpc'`. */
export function kindOf(context: ExecutionContext): string {
  return context.getType<ContextType | 'graphql'>()
}

/** The context is the third argument of a resolver. */
function graphqlContextOf(context: ExecutionContext): GraphqlContext {
  return (context.getArgByIndex(2) as GraphqlContext | undefined) ?? {}
}

/** Returns what keyers receive. Throws `NOT_APPLICABLE` when it is not found. */
export function requestOf(context: ExecutionContext): object {
  const found = findRequest(context)
  if (typeof found === 'object' && found !== null) return found
  const advice = 'Extend RateLimitGuard and override `getRequest`.'
  throw new SluiceError(
    'NOT_APPLICABLE',
    `RateLimitGuard found no request in a "${kindOf(context)}" context. ${advice}`,
  )
}

function findRequest(context: ExecutionContext): unknown {
  switch (kindOf(context)) {
    case 'http':
      return context.switchToHttp().getRequest()
    case 'ws':
      return context.switchToWs().getClient()
    case 'rpc':
      return { data: context.switchToRpc().getData<unknown>(), context: context.switchToRpc().getContext<unknown>() }
    case 'graphql': {
      const { req, request, reply } = graphqlContextOf(context)
      return req ?? request ?? reply?.request
    }
    default:
      return undefined
  }
}

/** Returns the HTTP response of a call, if it has one. */
export function responseOf(context: ExecutionContext): NestResponse | undefined {
  const found = findResponse(context)
  return isResponse(found) ? found : undefined
}

function findResponse(context: ExecutionContext): unknown {
  if (kindOf(context) === 'http') return context.switchToHttp().getResponse()
  if (kindOf(context) !== 'graphql') return undefined
  const { req, res, reply } = graphqlContextOf(context)
  return res ?? reply ?? (req as { readonly res?: unknown } | undefined)?.res
}
