import type * as keys from '../../stores/memory/key-counts.ts'
import type * as leases from '../../stores/lease-settings.ts'
import type * as stores from '../../stores/store.ts'
import type * as texts from '../../util/bounded-key.ts'
import type * as clocks from '../../util/clock.ts'
import type * as errors from '../../util/errors.ts'
import type * as promises from '../../util/maybe-promise.ts'
import type * as listeners from '../../util/shared-listener.ts'
import type * as checks from '../../util/validate.ts'
import type * as worker from '../../util/worker.ts'
import type * as decisions from '../decision.ts'

/**
 * The parts of the package that the code of queues uses. It receives them and imports only types: a bundler puts a module that both sides import into a
 * file of its own, or into its own function if it makes one file.
 */
export type QueueTools = Pick<typeof stores, 'Charge' | 'createPolicy' | 'perform'> &
  Pick<typeof checks, 'milliseconds' | 'refuse' | 'wholeNumber'> &
  Pick<typeof clocks, 'microseconds' | 'sleep'> &
  Pick<typeof decisions, 'combine' | 'waitsForSlots'> &
  Pick<typeof errors, 'shown' | 'SluiceError'> &
  Pick<typeof promises, 'chain' | 'isPromise'> &
  Pick<typeof keys, 'isMemoryPlace'> &
  Pick<typeof leases, 'NOT_LEASED'> &
  Pick<typeof listeners, 'onAbort'> &
  Pick<typeof texts, 'boundedKey'> &
  Pick<typeof worker, 'isWorker'>

export let tools: QueueTools

/** Must be called before anything else in this folder. */
export function takeTools(given: QueueTools): void {
  tools = given
}
