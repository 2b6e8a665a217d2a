import type { Charge } from '../../stores/store.ts'
import type { Clock } from '../../util/clock.ts'
import { tools } from './tools.ts'

export interface Waiting {
  readonly charges: readonly Charge[]
  group: Group<this>
  /** Its number in the order of arrival. */
  arrival: number
}

/** The waiters with one key of the first limiter. Tenants are served in turn. */
export interface Tenant<Waiter extends Waiting> {
  readonly name: string
  /** Grows with each admitted waiter. The tenant with the smallest number, which was served longest ago, comes first. */
  turn: number
  /** The waiters in the order of their arrival. */
  readonly waiters: Set<Waiter>
  readonly groups: Set<Group<Waiter>>
}

/** The waiters that are charged to the same keys under the same limits. Only the first one asks the store. */
export class Group<Waiter extends Waiting> {
  readonly name: string
  readonly tenant: Tenant<Waiter>
  /** The names of the lines in which the group can stand: one for each charge. */
  readonly lines: readonly string[]
  /** The cost of all waiters, for each charge. */
  readonly costs: number[]
  /** The waiters in the order of their arrival. */
  readonly waiters: Set<Waiter> = new Set<Waiter>()
  /** The index of the line in which the group stands; -1 for none. */
  place = -1
  #wake: () => void = () => undefined
  #isWoken = false

  constructor(name: string, tenant: Tenant<Waiter>, lines: readonly string[]) {
    this.name = name
    this.tenant = tenant
    this.lines = lines
    this.costs = lines.map(() => 0)
  }

  get first(): Waiter | undefined {
    return this.waiters.values().next().value
  }

  /** Forgets earlier calls of `wake`. A later call ends the next sleep. */
  begin(): void {
    this.#isWoken = false
  }

  /** Sleeps for `ms` milliseconds, or until `wake` is called. */
  sleep(ms: number, clock: Clock | undefined): Promise<void> {
    if (this.#isWoken) return Promise.resolve()
    return new Promise((resolve) => {
      const cancel = ms === Infinity ? () => undefined : tools.sleep(ms, resolve, clock)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }

  wake(): void {
    this.#isWoken = true
    this.#wake()
  }
}

/** The groups that wait for one key under one limit, and the cost of all their waiters. */
interface Line<Waiter extends Waiting> {
  readonly groups: Set<Group<Waiter>>
  cost: number
}

/**
 * The order of waiters. A group stands in one line: the line of the limit that has denied it last, or of a limit for which other groups wait before it. So a
 * tenant that waits for its own limit does not delay others under a shared limit. Empty lines, groups and tenants are removed.
 */
export class Turns<Waiter extends Waiting> {
  readonly #lines = new Map<string, Line<Waiter>>()
  readonly #groups = new Map<string, Group<Waiter>>()
  readonly #tenants = new Map<string, Tenant<Waiter>>()
  #count = 0

  sizeOf(charges: readonly Charge[]): number {
    return this.#tenants.get(tenantName(charges))?.waiters.size ?? 0
  }

  /** Returns the waiters of the tenant with the most waiters. */
  longest(): ReadonlySet<Waiter> {
    let longest: ReadonlySet<Waiter> = new Set()
    for (const { waiters } of this.#tenants.values()) if (waiters.size > longest.size) longest = waiters
    return longest
  }

  add(waiter: Waiter): void {
    const { charges } = waiter
    const lines = charges.map(lineName)
    const name = lines.join('\0')
    waiter.arrival = ++this.#count
    const group = this.#groups.get(name) ?? this.#newGroup(name, tenantName(charges), lines, waiter.arrival)
    waiter.group = group
    group.waiters.add(waiter)
    group.tenant.waiters.add(waiter)
    this.#countCosts(group, charges, 1)
  }

  /** Removes a waiter, and wakes the next one in its line. */
  remove(waiter: Waiter): void {
    const { group } = waiter
    const { tenant } = group
    const isFirst = group.first === waiter
    group.waiters.delete(waiter)
    tenant.waiters.delete(waiter)
    this.#countCosts(group, waiter.charges, -1)
    if (!isFirst) return
    if (group.first === undefined) {
      this.stand(group, -1)
      this.#groups.delete(group.name)
      tenant.groups.delete(group)
    } else if (group.place >= 0) this.firstIn(group.lines[group.place]!)?.wake()
    if (tenant.waiters.size === 0) this.#tenants.delete(tenant.name)
    group.wake()
  }

  /** Notes that a waiter of the tenant was admitted. The next turn goes to another tenant. */
  served({ tenant }: Group<Waiter>): void {
    tenant.turn = ++this.#count
    const names = new Set<string>()
    for (const { lines, place } of tenant.groups) if (place >= 0) names.add(lines[place]!)
    for (const name of names) this.firstIn(name)?.wake()
  }

  /** Returns the index of a line in which another group comes first; -1 if there is none. */
  placeBehind(group: Group<Waiter>): number {
    const isBehind = (name: string): boolean => {
      const first = this.firstIn(name)
      return first !== undefined && first !== group && comesBefore(first, group)
    }
    if (group.place >= 0 && isBehind(group.lines[group.place]!)) return group.place
    return group.lines.findIndex(isBehind)
  }

  /** Moves a group to one of its lines; -1 for none. Wakes the first group of the line that it leaves. */
  stand(group: Group<Waiter>, place: number): void {
    if (group.place === place) return
    const left = group.lines[group.place]
    if (left !== undefined) {
      const line = this.#lines.get(left)!
      line.groups.delete(group)
      line.cost -= group.costs[group.place]!
      if (line.groups.size === 0) this.#lines.delete(left)
    }
    group.place = place
    const entered = group.lines[place]
    if (entered !== undefined) {
      const line = this.#lines.get(entered) ?? { groups: new Set(), cost: 0 }
      this.#lines.set(entered, line)
      line.groups.add(group)
      line.cost += group.costs[place]!
    }
    if (left !== undefined) this.firstIn(left)?.wake()
  }

  /** Returns true if a group waits for the key of a charge under its limit. */
  isAheadOf(charge: Charge): boolean {
    return this.#lines.has(lineName(charge))
  }

  /** Returns the cost of all waiters for the key of a charge under its limit. */
  costAhead(charge: Charge): number {
    return this.#lines.get(lineName(charge))?.cost ?? 0
  }

  /** Wakes the first group in the line of each charge, or all groups, in the order in which they are served. */
  wake(charges?: readonly Charge[]): void {
    const groups =
      charges === undefined
        ? [...this.#groups.values()]
        : [...new Set(charges.flatMap((charge) => this.firstIn(lineName(charge)) ?? []))]
    groups.sort((a, b) => (comesBefore(a, b) ? -1 : 1))
    for (const group of groups) group.wake()
  }

  #newGroup(name: string, tenantKey: string, lines: readonly string[], arrival: number): Group<Waiter> {
    const tenant = this.#tenants.get(tenantKey) ?? {
      name: tenantKey,
      turn: arrival,
      waiters: new Set<Waiter>(),
      groups: new Set<Group<Waiter>>(),
    }
    const group = new Group<Waiter>(name, tenant, lines)
    this.#tenants.set(tenantKey, tenant)
    this.#groups.set(name, group)
    tenant.groups.add(group)
    return group
  }

  #countCosts(group: Group<Waiter>, charges: readonly Charge[], sign: 1 | -1): void {
    for (const [i, { cost }] of charges.entries()) {
      group.costs[i]! += sign * cost
      if (group.place === i) this.#lines.get(group.lines[i]!)!.cost += sign * cost
    }
  }

  firstIn(name: string): Group<Waiter> | undefined {
    let first: Group<Waiter> | undefined
    for (const group of this.#lines.get(name)?.groups ?? [])
      if (first === undefined || comesBefore(group, first)) first = group
    return first
  }
}

function comesBefore<Waiter extends Waiting>(one: Group<Waiter>, other: Group<Waiter>): boolean {
  if (one.tenant !== other.tenant) return one.tenant.turn < other.tenant.turn
  return one.first!.arrival < other.first!.arrival
}

/** Returns the name of a line. Requests without a cost have their own lines, because they only wait for the end of a lock-out. */
function lineName(charge: Charge): string {
  return `${charge.cost === 0 ? 'free ' : ''}${stateName(charge)}`
}

function tenantName([first]: readonly Charge[]): string {
  return first === undefined ? '' : `${first.policy.limiter.length}:${first.policy.limiter}${first.key}`
}

/** Returns the name of a key under a limit. Lengths come first, so that two different ones never have the same name. */
function stateName({ policy: { limiter, limit }, key }: Charge): string {
  return `${limiter.length}:${limiter}${limit.name.length}:${limit.name}${key}`
}
