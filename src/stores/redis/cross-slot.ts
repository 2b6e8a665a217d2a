import { Charge, type DecisionMode } from '../store.ts'
import type { Transaction } from './request.ts'
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
 * Decides slot by slot: what one slot admits is reserved, and given back when a later one denies or does not answer. For a
 * moment too much may be denied; never is too much admitted.
 */
export async function takeBySlot(queue: RedisQueue, groups: readonly Group[], mode: DecisionMode): Promise<void> {
  const reserved: Group[] = []
  let denied = false
  for (const group of groups) {
    try {
      await queue.send({ ...group, mode: denied && mode === 'consume' ? 'refuse' : mode, units: [] })
    } catch (error) {
      await Promise.allSettled(reserved.map((each) => queue.sendAll(withdrawal(each, []))))
      throw error
    }
    denied ||= group.charges.some(vetoes)
    if (!denied) reserved.push(group)
  }
  if (!denied) return
  for (const group of reserved.toReversed()) await withdraw(queue, group, mode)
}

/** Another slot has denied: gives back what this one reserved, and reports what it holds without it. */
async function withdraw(queue: RedisQueue, group: Group, mode: DecisionMode): Promise<void> {
  const free = group.charges.map(({ policy, key }) => new Charge(policy, key, 0))
  const peek: Transaction = { ...group, charges: free, mode: 'peek', units: [] }
  await queue.sendAll(mode === 'consume' ? withdrawal(group, [peek]) : [peek])
  for (const [i, charge] of group.charges.entries()) {
    charge.delay = 0
    charge.markCharged(0, 0)
    if (!charge.allowed) continue
    charge.remaining = free[i]!.remaining
    charge.resetAfter = free[i]!.resetAfter
  }
}

function withdrawal(group: Group, then: readonly Transaction[]): Transaction[] {
  return [{ ...group, mode: 'withdraw', units: group.charges.map(givenBack) }, ...then]
}

function vetoes({ allowed, limit }: Charge): boolean {
  return !allowed && limit.shadow !== true
}

/** A strict limit keeps what it was charged although the request is denied. */
function givenBack({ limit, charged }: Charge): number {
  return limit.strict === true || charged === 0 ? 0 : -charged
}
