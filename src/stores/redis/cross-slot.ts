import { Charge, type DecisionMode } from '../store.ts'
import { type Transaction, transactionOf } from './request.ts'
import type { RedisQueue } from './queue.ts'

/** The charges of a transaction whose keys share a slot. */
export interface Group {
  readonly keys: readonly string[]
  readonly charges: readonly Charge[]
}

/** Charges, each with its key, by the slots of their keys; in the order given. */
export function bySlot(queue: RedisQueue, keys: readonly string[], charges: readonly Charge[]): Group[] {
  if (!queue.inCluster || keys.length === 1) return [{ keys, charges }]
  const groups = new Map<number, { keys: string[]; charges: Charge[] }>()
  for (const [i, key] of keys.entries()) {
    const slot = queue.slotOf(key)
    const group = groups.get(slot) ?? { keys: [], charges: [] }
    group.keys.push(key)
    group.charges.push(charges[i]!)
    groups.set(slot, group)
  }
  return [...groups.values()]
}

/**
 * Decides slot by slot: what one slot admits is reserved, and refunded when a later one denies or does not answer. For a
 * moment it may deny too much. It never admits too much.
 */
export async function takeBySlot(queue: RedisQueue, groups: readonly Group[], mode: DecisionMode): Promise<void> {
  const reserved: Group[] = []
  let denied = false
  for (const group of groups) {
    try {
      await queue.send(transactionOf(denied && mode === 'consume' ? 'refuse' : mode, group.keys, group.charges))
    } catch (error) {
      await Promise.allSettled(reserved.map((each) => queue.sendAll(releaseOf(each, []))))
      throw error
    }
    denied ||= group.charges.some(vetoes)
    if (!denied) reserved.push(group)
  }
  if (!denied) return
  for (const group of reserved.toReversed()) await release(queue, group, mode)
}

/** Another slot has denied: refunds the reservation of this slot, and reports its state without it. */
async function release(queue: RedisQueue, group: Group, mode: DecisionMode): Promise<void> {
  const free = group.charges.map(({ policy, key }) => new Charge(policy, key, 0))
  const peek = transactionOf('peek', group.keys, free)
  await queue.sendAll(mode === 'consume' ? releaseOf(group, [peek]) : [peek])
  for (const [i, charge] of group.charges.entries()) {
    charge.delay = 0
    charge.markCharged(0, 0)
    if (!charge.allowed) continue
    charge.remaining = free[i]!.remaining
    charge.resetAfter = free[i]!.resetAfter
  }
}

function releaseOf(group: Group, then: readonly Transaction[]): Transaction[] {
  return [transactionOf('release', group.keys, group.charges, group.charges.map(givenBack)), ...then]
}

function vetoes({ allowed, limit }: Charge): boolean {
  return !allowed && limit.shadow !== true
}

/** A strict limit keeps what it was charged although the request is denied. */
function givenBack({ limit, charged }: Charge): number {
  return limit.strict === true || charged === 0 ? 0 : -charged
}
