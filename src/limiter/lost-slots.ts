import type { Limit } from '../engine/limit.ts'
import type { Charge } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { warnLater } from '../util/warn-later.ts'
import { observer, rarely } from '../util/warn.ts'
import type { Decision } from './decision.ts'
import { addSlots, type SlotCount } from './slots.ts'

/** Slots of `concurrent` that a running request has lost. Other requests may have taken them. */
export interface LostSlots {
  /** The decision that has taken them. */
  readonly decision: Decision
  /** The name of the limiter. */
  readonly limiter: string
  /** The limit. */
  readonly limit: Limit
  /** The key as a string. */
  readonly key: string
  /** How many slots are lost. */
  readonly slots: number
}

/** Called with slots that are lost. Its result is not used. */
export type OnSlotLost = (lost: LostSlots) => void

/** Returns a function that calls `onSlotLost` and never throws. */
export function lossObserver(onSlotLost: OnSlotLost): OnSlotLost {
  return observer(onSlotLost, 'onSlotLost failed. The slot stays lost.')
}

const lost = shared('lost slots', () => new Map<string, SlotCount>())

/** Returns how many slots requests of this process have lost, for each limit. */
export function slotsLost(): SlotCount[] {
  return [...lost.values()]
}

const warnLost = rarely((limiter: string, limit: string) => warnLater('SLUICE_SLOT_LOST', limiter, limit))

/** Counts slots that are lost, and reports them to `onSlotLost`, or else as a warning at most once a minute. */
export function reportLost(
  decision: Decision,
  { limiter, limit, key }: Charge,
  slots: number,
  onSlotLost: OnSlotLost | undefined,
): void {
  addSlots(lost, limiter, limit.name, slots)
  if (onSlotLost !== undefined) return onSlotLost({ decision, limiter, limit, key, slots })
  warnLost(limiter, limit.name)
}
