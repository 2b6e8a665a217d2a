// The parts of the package that the checks use. `checking.ts` passes them: see `checks/tools.ts`.

export { chargeSourcesOf } from '../limiter/default-limiter.ts'
export { definitionOf } from '../limiter/keyers.ts'
export { createdPerRequest } from '../limiter/created-per-request.ts'
export { boundedKey } from '../util/bounded-key.ts'
export { background } from '../util/clock.ts'
export { isTestRun, warn } from '../util/warn.ts'
export { clashBetween } from './headers/styles.ts'
export { clientAddress, readsOfChecked } from './keys/address.ts'
