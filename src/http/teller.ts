import { combine, type Decision } from '../decision.ts'
import { Charge } from '../store.ts'
import { exposeHeaders } from './cors.ts'
import { fieldNames, fieldWriter, mergeDecisions } from './fields.ts'
import type { GateOptions } from './options.ts'
import type { Surface } from './surface.ts'

/**
 * Keeps a decision for the framework's users and, where there still is a response to write to, tells the client; `earlier` is
 * the one that was made for the request before.
 */
export type Teller<Request, Response> = (
  decision: Decision,
  earlier: Decision | undefined,
  request: Request,
  response: Response | undefined,
) => void

/** What the client has been told by the time of a decision, where that is not just the decision. */
const toldBy = new WeakMap<Decision, Decision>()
const NOTHING: Decision = combine([], undefined)

/** Makes the teller of a gate. Gates that a request passes one after another tell of all their limits in one field. */
export function teller<Request, Response>(
  options: GateOptions<never, never>,
  surface: Pick<Surface<Request, Response, never, never>, 'field' | 'set' | 'keep'>,
): Teller<Request, Response> {
  const { headers = 'standard' } = options
  const write = fieldWriter(headers, options)
  const exposed = ['Retry-After', ...fieldNames(headers, options)]
  const silent = headers === false
  const timed = [headers].flat().includes('github')
  // One function for all requests: fields are written at once, so that no other response can come between.
  let written: Response
  const set = (name: string, value: string): void => surface.set(written, name, value)

  function expose(response: Response): void {
    const existing = surface.field(response, 'access-control-expose-headers')
    const cors = existing ?? surface.field(response, 'access-control-allow-origin')
    if (cors === undefined || cors === '') return
    surface.set(response, 'Access-Control-Expose-Headers', exposeHeaders(String(existing ?? ''), exposed))
  }

  return function tell(decision, earlier, request, response) {
    surface.keep(request, decision)
    const told = earlier === undefined && !silent ? decision : retold(earlier, silent ? NOTHING : decision)
    if (told !== decision) toldBy.set(decision, told)
    if (response === undefined) return
    expose(response)
    if (silent) return
    written = response
    write(told, timed ? timeOf(decision) : 0, set)
  }
}

/** Epoch milliseconds by the clock of the store that has decided, where it was given one; else the time of day. */
function timeOf({ limits: [first] }: Decision): number {
  const clock = first instanceof Charge ? first.policy.store.clock : undefined
  return (clock ?? Date).now()
}

function retold(earlier: Decision | undefined, later: Decision): Decision {
  const before = earlier === undefined ? NOTHING : (toldBy.get(earlier) ?? earlier)
  return later === NOTHING ? before : mergeDecisions(before, later)
}
