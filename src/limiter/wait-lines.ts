import type { Charge } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import type { Waiter } from './waiter.ts'

/** The waiters for one key under one limit, in the order of their arrival, and the cost of all of them. */
interface Line {
  readonly waiters: Set<Waiter>
  cost: number
}

/** By the places of stores, then by limiter, limit and key. An empty line is removed. */
const linesIn = shared('lines', () => new WeakMap<object, Map<string, Line>>())

/** Puts a waiter at the end of a line for each limit that it is charged to. */
export function addToLines(waiter: Waiter): void {
  for (const charge of waiter.charges) {
    if (charge.cost === 0) continue
    const { place } = charge.policy.store
    const lines = linesIn.get(place) ?? new Map<string, Line>()
    linesIn.set(place, lines)
    const name = lineName(charge)
    const line = lines.get(name) ?? { waiters: new Set(), cost: 0 }
    lines.set(name, line)
    line.waiters.add(waiter)
    line.cost += charge.cost
  }
}

/** Removes a waiter from its lines. Returns the waiters that are first in these lines now. */
export function removeFromLines(waiter: Waiter): Set<Waiter> {
  const first = new Set<Waiter>()
  for (const charge of waiter.charges) {
    const line = lineOf(charge)
    if (line === undefined) continue
    line.waiters.delete(waiter)
    line.cost -= charge.cost
    const next = line.waiters.values().next().value
    if (next !== undefined) first.add(next)
    else removeLine(charge)
  }
  return first
}

/** True when no other waiter is to be served before this one. */
export function isFirst(waiter: Waiter): boolean {
  return waiter.charges.every((charge) => {
    const line = lineOf(charge)
    return line === undefined || line.waiters.values().next().value === waiter
  })
}

/** The first waiter in the line of each charge. */
export function firstIn(charges: readonly Charge[]): Set<Waiter> {
  const first = new Set<Waiter>()
  for (const charge of charges) {
    const waiter = lineOf(charge)?.waiters.values().next().value
    if (waiter !== undefined) first.add(waiter)
  }
  return first
}

/** True when any waiter is to be served before these charges. */
export function isAheadOf(charges: readonly Charge[]): boolean {
  return charges.some((charge) => lineOf(charge) !== undefined)
}

/** Returns the cost of all waiters for the key of a charge under its limit. */
export function costInLine(charge: Charge): number {
  return lineOf(charge)?.cost ?? 0
}

function lineOf(charge: Charge): Line | undefined {
  return charge.cost === 0 ? undefined : linesIn.get(charge.policy.store.place)?.get(lineName(charge))
}

function removeLine(charge: Charge): void {
  linesIn.get(charge.policy.store.place)!.delete(lineName(charge))
}

/** Lengths come first, so that no text can pass for a boundary. */
function lineName({ policy: { limiter, limit }, key }: Charge): string {
  return `${limiter.length}:${limiter}${limit.name.length}:${limit.name}${key}`
}
