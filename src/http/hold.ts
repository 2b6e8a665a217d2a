import { sleep } from '../util/timer.ts'
import type { Surface } from './adapter.ts'

/**
 * Holds an admitted request until its slot.
 * @returns false when the client has hung up meanwhile: there is nobody left to serve, and no timer left to fire
 */
export function hold<Response>(
  surface: Pick<Surface<never, Response, never, never>, 'ended'>,
  response: Response,
  ms: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = sleep(ms, function slotReached() {
      stop()
      resolve(true)
    })
    const stop = surface.ended(response, function hungUp() {
      cancel()
      resolve(false)
    })
  })
}
