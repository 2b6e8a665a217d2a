import type { NOT_LEASED } from '../../stores/lease-settings.ts'
import type { isMemoryPlace } from '../../stores/memory/key-counts.ts'
import type { Charge, createPolicy, perform } from '../../stores/store.ts'
import type { boundedKey } from '../../util/bounded-key.ts'
import type { microseconds, sleep } from '../../util/clock.ts'
import type { shown, SluiceError } from '../../util/errors.ts'
import type { chain, isPromise } from '../../util/maybe-promise.ts'
import type { onAbort } from '../../util/shared-listener.ts'
import type { milliseconds, refuse, wholeNumber } from '../../util/validate.ts'
import type { isWorker } from '../../util/worker.ts'
import type { combine, waitsForSlots } from '../decision.ts'

/**
 * What the code of queues uses of the package. It gets them and imports only types: a module that both import would be in every bundle as a file of its
 * own, or in a function of its own where a bundler makes one file.
 */
export interface QueueTools {
  readonly NOT_LEASED: typeof NOT_LEASED
  readonly isMemoryPlace: typeof isMemoryPlace
  readonly Charge: typeof Charge
  readonly createPolicy: typeof createPolicy
  readonly perform: typeof perform
  readonly boundedKey: typeof boundedKey
  readonly microseconds: typeof microseconds
  readonly sleep: typeof sleep
  readonly shown: typeof shown
  readonly SluiceError: typeof SluiceError
  readonly chain: typeof chain
  readonly isPromise: typeof isPromise
  readonly onAbort: typeof onAbort
  readonly milliseconds: typeof milliseconds
  readonly refuse: typeof refuse
  readonly wholeNumber: typeof wholeNumber
  readonly isWorker: typeof isWorker
  readonly combine: typeof combine
  readonly waitsForSlots: typeof waitsForSlots
}

export let tools: QueueTools

/** Called before anything else of this folder. */
export function takeTools(given: QueueTools): void {
  tools = given
}
