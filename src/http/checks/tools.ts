import type { chargeSourcesOf } from '../../limiter/default-limiter.ts'
import type { definitionOf } from '../../limiter/keyers.ts'
import type { createdPerRequest } from '../../limiter/limiter.ts'
import type { boundedKey } from '../../util/bounded-key.ts'
import type { isTestRun, warn } from '../../util/warn.ts'
import type { clashBetween } from '../headers/styles.ts'
import type { clientAddress, readsOfChecked } from '../keys/address.ts'

/** The parts of the package that the checks use: see `src/limiter/queue/tools.ts`. */
export interface CheckTools {
  readonly chargeSourcesOf: typeof chargeSourcesOf
  readonly boundedKey: typeof boundedKey
  readonly createdPerRequest: typeof createdPerRequest
  readonly definitionOf: typeof definitionOf
  readonly isTestRun: typeof isTestRun
  readonly warn: typeof warn
  readonly clashBetween: typeof clashBetween
  readonly clientAddress: typeof clientAddress
  readonly readsOfChecked: typeof readsOfChecked
}

export let tools: CheckTools

/** Must be called before anything else in this folder. */
export function takeTools(given: CheckTools): void {
  tools = given
}
