import type { Decision } from '../limiter/decision.ts'
import type { Surface } from './adapter.ts'

/** The decision that was made for a request before. Other packages, too, keep something of theirs as `rateLimit`. */
export function earlierDecision<Request>(
  surface: Pick<Surface<Request, never, never, never>, 'known'>,
  request: Request,
): Decision | undefined {
  const known = surface.known(request) as Partial<Decision> | null | undefined
  return Array.isArray(known?.limits) ? (known as Decision) : undefined
}
