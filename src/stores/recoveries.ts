import { shared } from '../util/copies.ts'
import type { Place } from './store.ts'

/**
 * Functions that guards call with the place of their store when the store is asked again, before the first decision is sent. The place may have lost
 * its counts.
 */
export const recoveries: Set<(place: Place) => void> = shared('recoveries', () => new Set<(place: Place) => void>())
