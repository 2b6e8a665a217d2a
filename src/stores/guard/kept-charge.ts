import { copyText } from '../../util/copy-text.ts'
import { Charge } from '../store.ts'

/** Returns the same charge to keep for longer than its request: its key shares no memory with a header of the request. */
export function keptCharge(charge: Charge): Charge {
  const kept = new Charge(charge.policy, copyText(charge.key), charge.cost)
  kept.adopt(charge)
  return kept
}
