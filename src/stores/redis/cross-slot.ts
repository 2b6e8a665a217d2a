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
  const wait = mode === 'consume' ? waitOf(groups.flatMap(({ charges }) => charges)) : 0
  for (const group of groups.toReversed()) {
    if (reserved.includes(group)) await release(queue, group, mode, wait)
    else await queue.sendAll(outlastOf(group, wait))
  }
}

/** Another slot has denied: refunds the reservation of this slot, and reports its state without it. */
async function release(queue: RedisQueue, group: Group, mode: DecisionMode, wait: number): Promise<void> {
  const free = group.charges.map(({ policy, key }) => new Charge(policy, key, 0))
  const peek = transactionOf('peek', group.keys, free)
  await queue.sendAll(mode === 'consume' ? releaseOf(group, [...outlastOf(group, wait), peek]) : [peek])
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

/** Keeps keys that start part-full until a wait in microseconds is over: as new ones they would have fewer tokens. */
function outlastOf({ keys, charges }: Group, wait: number): Transaction[] {
  const kept = charges.filter(({ policy, cost }) => policy.compiled.renewal !== -1 && cost > 0)
  if (wait === 0 || kept.length === 0) return []
  const keysOf = kept.map((charge) => keys[charges.indexOf(charge)]!)
  return [
    transactionOf(
      'outlast',
      keysOf,
      kept,
      kept.map(() => wait),
    ),
  ]
}

/** Returns the microseconds that a denied request has to wait, 0 if it can never be admitted. */
function waitOf(charges: readonly Charge[]): number {
  const wait = Math.max(...charges.map((charge) => (vetoes(charge) ? charge.retryAfter : 0)))
  return wait === Infinity ? 0 : Math.round(wait * 1000)
}

function vetoes({ allowed, limit }: Charge): boolean {
  return !allowed && limit.shadow !== true
}

/** A strict limit keeps what it was charged although the request is denied. */
function givenBack({ limit, charged }: Charge): number {
  return limit.strict === true || charged === 0 ? 0 : -charged
}
