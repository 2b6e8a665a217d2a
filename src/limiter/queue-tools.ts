// The parts of the package that the code of queues uses. `wait-place.ts` passes them: see `queue/tools.ts`.

export { NOT_LEASED } from '../stores/lease-settings.ts'
export { isMemoryPlace } from '../stores/memory/key-counts.ts'
export { Charge, createPolicy, perform } from '../stores/store.ts'
export { boundedKey } from '../util/bounded-key.ts'
export { microseconds, sleep } from '../util/clock.ts'
export { shown, SluiceError } from '../util/errors.ts'
export { chain, isPromise } from '../util/maybe-promise.ts'
export { onAbort } from '../util/shared-listener.ts'
export { milliseconds, refuse, wholeNumber } from '../util/validate.ts'
export { isWorker } from '../util/worker.ts'
export { combine, waitsForSlots } from './decision.ts'
