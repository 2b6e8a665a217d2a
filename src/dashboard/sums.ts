import { KINDS, MOST_LIMITS } from './counters.ts'
import {
  BUCKETS,
  type DeniedKey,
  type ProcessState,
  type Rates,
  type Series,
  type Shared,
  SPAN,
  type Sums,
} from './state.ts'
import { madeOnce } from '../util/copies.ts'
import { addTo, others, type Summary, totalOf } from './summary.ts'

/** A process of a fleet, and its summary. */
export interface Member {
  readonly id: string
  /** Milliseconds since the process wrote its summary. */
  readonly age: number
  readonly summary: Summary
}

/** How late a summary may be, in milliseconds. */
const LATE = 5000
/** The most limits and the most keys that are shown. */
const MOST_SHOWN = 2 * MOST_LIMITS
const MOST_KEYS = 10
const OUTCOMES = KINDS - 1
const STATES = ['healthy', 'slow', 'away'] as const

/** Adds up the summaries of processes. */
export function addUp(members: readonly Member[], now: number): Sums {
  const live = members.filter((each) => !isLost(each))
  return {
    now,
    since: Math.min(now, ...members.map((each) => timeHere(each, each.summary.since, now))),
    processes: members.map((each) => processOf(each, now)),
    series: seriesOf(members, now),
    denied: deniedOf(members.map(({ summary }) => summary.denied)),
    stores: grouped(
      live.flatMap((each) =>
        each.summary.stores.map((store) => ({ ...store, since: store.since && secondHere(each, store.since, now) })),
      ),
      ({ name, state }) => [name, state],
      ({ since }) => since,
    ),
    rules: grouped(
      live.flatMap((each) =>
        each.summary.rules.map((rules) => ({ ...rules, loadedAt: secondHere(each, rules.loadedAt, now) })),
      ),
      ({ version, policies, problem }) => [version, policies, problem],
      ({ loadedAt }) => loadedAt,
    ),
  }
}

function isLost({ age, summary }: Member): boolean {
  return age > summary.every + LATE
}

/** Converts a time of another process to the clock of this process. */
function timeHere({ age, summary }: Member, time: number, now: number): number {
  return now - age - (summary.now - time)
}

/** As `timeHere`, but corrected by whole seconds: so a text with the time does not change with each summary. */
function secondHere(member: Member, time: number, now: number): number {
  return time + Math.round((timeHere(member, time, now) - time) / 1000) * 1000
}

function processOf(member: Member, now: number): ProcessState {
  const { id, age, summary } = member
  const { host, pid, memory, stores, rules } = summary
  const worst = STATES.findLast((state) => stores.some((each) => each.state === state))
  return {
    id,
    host,
    pid,
    since: timeHere(member, summary.since, now),
    age,
    isLost: isLost(member),
    memory,
    rates: ratesOf(member, summary.series[0]!),
    store: worst ?? '',
    rules: [...new Set(rules.map(({ version }) => version))].join(', '),
  }
}

/** Returns the rates of a series, from the current bucket and the one before. */
function ratesOf(member: Member, { counts }: Series): Rates {
  if (isLost(member)) return [0, 0, 0]
  const seconds = SPAN + (member.summary.now % (SPAN * 1000)) / 1000
  return counts.slice(0, OUTCOMES).map((list) => ((list.at(-1) ?? 0) + (list.at(-2) ?? 0)) / seconds)
}

interface Sum {
  readonly limiter: string
  readonly limit: string
  readonly words: Set<string>
  readonly counts: readonly number[][]
  readonly rates: number[]
}

function seriesOf(members: readonly Member[], now: number): Sums['series'] {
  const sums = new Map<string, Sum>()
  for (const member of members) {
    const shift = bucketsAgo(member, now)
    for (const series of member.summary.series) {
      const sum = sumIn(sums, series)
      if (series.words !== '') sum.words.add(series.words)
      series.counts.forEach((list, kind) => addTo(sum.counts[kind]!, list, shift))
      ratesOf(member, series).forEach((rate, kind) => (sum.rates[kind]! += rate))
    }
  }
  const [all, ...limits] = Array.from(sums.values(), (sum) => ({
    ...sum,
    words: [...sum.words].slice(0, 3).join(', or '),
  }))
  const busiest = limits.toSorted((a, b) => totalOf(b) - totalOf(a))
  const [rest] = others(busiest.slice(MOST_SHOWN))
  return [
    ...(all === undefined ? [] : [all]),
    ...busiest.slice(0, MOST_SHOWN),
    ...(rest === undefined ? [] : [{ ...rest, rates: [0, 0, 0] }]),
  ]
}

function sumIn(sums: Map<string, Sum>, { limiter, limit }: Series): Sum {
  return madeOnce(sums, `${limiter}\0${limit}`, () => {
    const counts = Array.from({ length: KINDS }, () => new Array<number>(BUCKETS).fill(0))
    return { limiter, limit, words: new Set<string>(), counts, rates: [0, 0, 0] }
  })
}

/** Returns how many buckets the newest bucket of a process is before the current bucket, rounded. */
function bucketsAgo({ age, summary }: Member, now: number): number {
  const span = SPAN * 1000
  const newest = Math.round((now - age - (summary.now % span)) / span)
  return Math.max(0, Math.floor(now / span) - newest)
}

/**
 * Merges lists of frequent keys as in Agarwal et al., "Mergeable summaries" (2012): if a key is not in a list, the number `unlisted` of that list is
 * added to its count and to its error.
 */
function deniedOf(lists: readonly Summary['denied'][]): DeniedKey[] {
  const missing = lists.reduce((sum, { unlisted }) => sum + unlisted, 0)
  const merged = new Map<string, { -readonly [Name in keyof DeniedKey]: DeniedKey[Name] }>()
  for (const { keys, unlisted } of lists) {
    for (const { key, limiter, limit, count, error } of keys) {
      const name = JSON.stringify([limiter, limit, key])
      const sum = merged.get(name) ?? { key, limiter, limit, count: missing, error: missing }
      sum.count += count - unlisted
      sum.error += error - unlisted
      merged.set(name, sum)
    }
  }
  return [...merged.values()].toSorted((a, b) => b.count - a.count).slice(0, MOST_KEYS)
}

/** Joins equal states. The joined state has the earliest time and the number of processes. */
function grouped<State>(
  states: readonly State[],
  nameOf: (state: State) => readonly unknown[],
  timeOf: (state: State) => number,
): (State & Shared)[] {
  const groups = new Map<string, State & Shared>()
  for (const state of states) {
    const name = JSON.stringify(nameOf(state))
    const known = groups.get(name)
    const first = known !== undefined && timeOf(known) <= timeOf(state) ? known : state
    groups.set(name, { ...first, processes: (known?.processes ?? 0) + 1 })
  }
  return [...groups.values()].slice(0, MOST_SHOWN)
}
