import { recoveries } from '../stores/recoveries.ts'
import { isCharge, type Place } from '../stores/store.ts'
import { madeOnce, shared } from '../util/copies.ts'
import { LONGEST_TIMER } from '../util/clock.ts'
import { isWorker } from '../util/worker.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { type Decision, holdsSlots } from './decision.ts'

/** A decision whose slots are held until it is released. */
interface Held {
  readonly renew: (decision: Decision) => MaybePromise<boolean>
  readonly lease: number
  /** The millisecond of `performance.now()` at which it is renewed. */
  due: number
}

const held = shared('held slots', () => new Map<Decision, Held>())
/** The timers of decisions in a Worker. A timer there ends with its request, so each decision has its own. */
const ownTimers = new WeakMap<Decision, NodeJS.Timeout>()
const timer = shared('renewal of slots', () => ({ id: undefined as NodeJS.Timeout | undefined, every: Infinity }))

/** A slot is renewed after a third of its lease, so that two renewals can fail. */
const PART = 3
/** The number of batches in a third of a lease, and the shortest time between two batches in milliseconds. */
const BATCHES = 32
const SHORTEST = 10
/** The most renewals of a batch. If a sixteenth of all decisions is more, a batch can have these. */
const MOST_AT_ONCE = 64
/** The value of `due` for slots that a store may have lost. */
const AT_ONCE = -Infinity

/**
 * Renews the slots of a decision until `dropSlots` is called. All decisions share one timer, which does not keep the process alive. Slots that were taken at
 * the same time are renewed in batches, which are spread over a sixth of their lease.
 */
export function holdSlots(decision: Decision, renew: Held['renew']): void {
  const lease = shortestLease(decision)
  if (isWorker) return holdAlone(decision, renew, lease)
  const after = (lease / PART) * (1 - Math.random() / 2)
  held.set(decision, { renew, lease, due: performance.now() + after })
  if (everyOf(lease) < timer.every) start(everyOf(lease))
}

export function dropSlots(decision: Decision): void {
  if (isWorker) return clearInterval(ownTimers.get(decision))
  if (held.delete(decision) && held.size === 0) stop()
}

function holdAlone(decision: Decision, renew: Held['renew'], lease: number): void {
  const each = { renew, lease, due: 0 }
  // A delayed request has a timer already.
  dropSlots(decision)
  ownTimers.set(
    decision,
    setInterval(() => void renewed(decision, each), Math.min(lease / PART, LONGEST_TIMER)),
  )
}

function shortestLease({ limits }: Decision): number {
  let shortest = Infinity
  for (const status of limits)
    if (isCharge(status) && status.policy.compiled.slots && status.limit.window < shortest)
      shortest = status.limit.window
  return shortest
}

/** Milliseconds between two batches. */
function everyOf(lease: number): number {
  return Math.max(Math.min(SHORTEST, lease / PART), lease / PART / BATCHES)
}

function start(ms: number): void {
  stop()
  timer.every = ms
  timer.id = setInterval(renewDue, Math.min(ms, LONGEST_TIMER))
  timer.id.unref?.()
  recoveries.add(renewAt)
}

function stop(): void {
  clearInterval(timer.id)
  timer.id = undefined
  timer.every = Infinity
}

/**
 * Renews the slots of a store that answers again. If the store has lost them, they are taken again before requests can take them. If there are many slots,
 * this needs several batches.
 */
function renewAt(place: Place): void {
  for (const [{ limits }, each] of held)
    if (limits.some((status) => isCharge(status) && status.policy.store.place === place)) each.due = AT_ONCE
  renewDue()
}

function renewDue(): void {
  const now = performance.now()
  let every = Infinity
  let left = Math.max(MOST_AT_ONCE, held.size / (BATCHES / 2))
  for (const [decision, each] of held) {
    every = Math.min(every, everyOf(each.lease))
    if (each.due > now) continue
    if (left-- <= 0) {
      if (each.due === AT_ONCE) every = Math.min(every, SHORTEST)
      continue
    }
    each.due = now + each.lease / PART
    void renewed(decision, each)
  }
  if (every !== timer.every && held.size > 0) start(every)
}

/** Renews a decision. If all its slots are lost, such as after a reset, it is not renewed again. After an error, the next turn tries again. */
async function renewed(decision: Decision, { renew }: Held): Promise<void> {
  try {
    const answer = renew(decision)
    const isHeld = isPromise(answer) ? await answer : answer
    // Other slots of the decision may still be held.
    if (isHeld || holdsSlots(decision)) return
    held.delete(decision)
    clearInterval(ownTimers.get(decision))
  } catch {
    // The store does not answer. A slot that is not renewed is free at the end of its lease.
  }
}

/** The number of slots of a limit, for metrics. */
export interface SlotCount {
  readonly limiter: string
  readonly limit: string
  count: number
}

/** Returns how many slots requests of this process hold, for each limit. */
export function slotsHeld(): SlotCount[] {
  const counts = new Map<string, SlotCount>()
  for (const { limits } of held.keys()) {
    for (const status of limits) {
      if (!isCharge(status) || !status.policy.compiled.slots || status.charged === 0) continue
      addSlots(counts, status.limiter, status.limit.name, status.charged)
    }
  }
  return [...counts.values()]
}

export function addSlots(counts: Map<string, SlotCount>, limiter: string, limit: string, slots: number): void {
  madeOnce(counts, `${limiter}\0${limit}`, () => ({ limiter, limit, count: 0 })).count += slots
}
