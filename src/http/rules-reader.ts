import type { InputReader } from '../limiter/rule-source.ts'
import { SluiceError } from '../util/errors.ts'
import type { HttpAdapter } from './adapter.ts'

/** What rules read with an adapter. */
export type RulesAdapter<Request> = Pick<
  HttpAdapter<Request, never, never, never>,
  'getMethod' | 'getPath' | 'getAddress' | 'getRest' | 'getRequestHeader'
>

/** Returns how rules read the requests of a framework. Throws `NOT_APPLICABLE` for an adapter that cannot say a path. */
export function readerOf<Request>(adapter: RulesAdapter<Request>): InputReader<Request> {
  const { getPath } = adapter
  if (getPath === undefined)
    throw new SluiceError('NOT_APPLICABLE', 'rules: this adapter has no `getPath`, so rules cannot match a path')
  return {
    method: (request) => adapter.getMethod(request),
    path: (request) => getPath(request),
    address: (request) => adapter.getAddress?.(request),
    header: (request, name) => adapter.getRequestHeader(request, name),
    attributes: () => ({}),
    rest: (request) => adapter.getRest?.(request) ?? [],
  }
}
