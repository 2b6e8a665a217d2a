import type { Limit } from '../../src/index.ts'

interface Entry {
  readonly time: number
  cost: number
}

/** What a log says to one request. Times are in milliseconds. */
export interface Said {
  readonly allowed: boolean
  readonly remaining: number
  readonly retryAfter: number
  readonly resetAfter: number
}

/**
 * `slidingWindowLog` by its definition, for one key in whole milliseconds: a list of entries that is searched from its start, under limits
 * whose quota and window change.
 */
export class SlowLog {
  #entries: Entry[] = []
  /** The limit that wrote the entries. */
  #writer: Limit | undefined
  /** When the limit was last changed, and until when that matters: as long as the entries before the change would have counted. */
  #change: { readonly at: number; readonly until: number } = { at: 0, until: 0 }

  /** Decides, and keeps what follows unless `peeks`. Returns the time of the charge, too. */
  ask(limit: Limit, now: number, cost: number, peeks = false): Said & { readonly at: number } {
    const { quota, window } = limit
    const before = this.#entries.filter((each) => each.time + (this.#writer?.window ?? 0) > this.#at(now))
    const writer = this.#writer
    const isChanged = writer !== undefined && (writer.quota !== quota || writer.window !== window)
    // In the same window, a sum above a smaller quota denies, and is still there when the quota becomes larger again.
    const entries = isChanged && writer.window !== window ? newestWithin(before, quota) : before
    const at = Math.max(now, entries.at(-1)?.time ?? now)
    const live = entries.filter((each) => each.time + window > at)
    const allowed = cost <= quota - sumOf(live)
    const kept = allowed && cost > 0 ? [...live, { time: at, cost }] : live
    const newest = kept.at(-1)
    const said = {
      allowed,
      remaining: Math.max(0, quota - sumOf(kept)),
      retryAfter: allowed ? 0 : retryOf(live, quota - cost, window, now),
      resetAfter: newest === undefined ? 0 : newest.time + window - now,
      at,
    }
    if (!peeks && ((allowed && cost > 0) || (!allowed && isChanged && live.length > 0))) {
      if (isChanged) this.#noteChange(now)
      this.#entries = kept
      this.#writer = limit
    }
    return said
  }

  #noteChange(now: number): void {
    const newest = this.#entries.at(-1)
    const until = newest === undefined ? 0 : newest.time + this.#writer!.window
    // Without an entry that counts, nothing is converted.
    if (until > now) this.#change = { at: now, until: Math.max(this.#change.until, until) }
  }

  /** Gives back what was charged at a time, as far as it still counts: nothing when the limit has changed since. */
  refund(limit: Limit, now: number, chargedAt: number, cost: number): void {
    if (limit !== this.#writer || (now < this.#change.until && chargedAt <= this.#change.at)) return
    const { window } = limit
    let left = cost
    for (const each of this.#entries) {
      if (each.time !== chargedAt || each.time + window <= this.#at(now)) continue
      const given = Math.min(left, each.cost)
      each.cost -= given
      left -= given
    }
    // Expired entries are removed when anything is written.
    const at = this.#at(now)
    if (left < cost) this.#entries = this.#entries.filter((each) => each.cost > 0 && each.time + window > at)
  }

  #at(now: number): number {
    return Math.max(now, this.#entries.at(-1)?.time ?? now)
  }
}

function sumOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, { cost }) => sum + cost, 0)
}

/** Returns the newest entries, of at most so much cost. */
function newestWithin(entries: readonly Entry[], quota: number): Entry[] {
  let left = quota
  const kept: Entry[] = []
  for (const { time, cost } of entries.toReversed()) {
    const part = Math.min(cost, left)
    left -= part
    if (part > 0) kept.unshift({ time, cost: part })
  }
  return kept
}

/** Returns the time until so much is left that `room` is not exceeded. */
function retryOf(entries: readonly Entry[], room: number, window: number, now: number): number {
  if (room < 0) return Infinity
  let held = sumOf(entries)
  for (const { time, cost } of entries) {
    held -= cost
    if (held <= room) return time + window - now
  }
  return 0
}
