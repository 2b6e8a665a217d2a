import { shared } from '../util/copies.ts'
import type { Place } from './store.ts'

/**
 * Functions that guards call with the place of their store when it is asked again, before the first decision is sent. A place may have lost what
 * it counted.
 */
export const recoveries: Set<(place: Place) => void> = shared('recoveries', () => new Set<(place: Place) => void>())
