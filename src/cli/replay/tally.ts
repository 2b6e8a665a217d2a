import { copyText } from '../../util/bounded-key.ts'

const SLOTS = 240

/** Requests over time, in a fixed number of slots. The slots become wider when the log becomes longer. */
export interface TimelineReport {
  /** The start of the first slot, in ISO 8601. */
  readonly from: string
  /** The length of a slot in milliseconds. */
  readonly width: number
  readonly admitted: readonly number[]
  readonly denied: readonly number[]
}

/** Counts admitted and denied requests in slots of equal width. Times never decrease. */
export class Timeline {
  readonly #admitted = new Float64Array(SLOTS)
  readonly #denied = new Float64Array(SLOTS)
  #from = NaN
  #width = 1000
  #used = 0

  add(time: number, isDenied: boolean): void {
    if (this.#used === 0) this.#from = Math.floor(time / 1000) * 1000
    let slot = Math.floor((time - this.#from) / this.#width)
    for (; slot >= SLOTS; slot = Math.floor((time - this.#from) / this.#width)) this.#widen()
    this.#used = slot + 1
    const counts = isDenied ? this.#denied : this.#admitted
    counts[slot]!++
  }

  report(): TimelineReport {
    return {
      from: new Date(this.#used === 0 ? 0 : this.#from).toISOString(),
      width: this.#width,
      admitted: [...this.#admitted.subarray(0, this.#used)],
      denied: [...this.#denied.subarray(0, this.#used)],
    }
  }

  /** Joins each pair of neighbouring slots into one. */
  #widen(): void {
    this.#width *= 2
    for (const counts of [this.#admitted, this.#denied]) {
      for (let i = 0; i < SLOTS / 2; i++) counts[i] = counts[2 * i]! + counts[2 * i + 1]!
      counts.fill(0, SLOTS / 2)
    }
  }
}

const MINUTE = 60_000
const HARDEST = 10

/** A key that a limit has denied. Times are in ISO 8601. */
interface DeniedKey {
  readonly key: string
  readonly denied: number
  /** The start of the minute with the most denials, and the number of these denials. */
  readonly worstMinute: { readonly at: string; readonly denied: number }
  readonly first: string
  readonly last: string
}

export interface TallyReport {
  readonly requests: number
  readonly admitted: number
  readonly denied: number
  /** The number of requests that a shadow limit would have denied. */
  readonly shadow: number
  readonly keysDenied: number
  /** True if there were more denied keys than are kept. */
  readonly hasMoreKeys: boolean
  /** The ten keys that were denied most. */
  readonly hardest: readonly DeniedKey[]
  readonly timeline: TimelineReport
}

/** Counts the decisions of one limit. The number of denied keys bounds the memory. */
export class Tally {
  #requests = 0
  #denied = 0
  #hasMoreKeys = false
  readonly #isShadow: boolean
  readonly #maxKeys: number
  readonly #keys = new Map<string, Denials>()
  readonly #timeline = new Timeline()

  constructor(isShadow: boolean, maxKeys: number) {
    this.#isShadow = isShadow
    this.#maxKeys = maxKeys
  }

  add(key: string, time: number, isAllowed: boolean): void {
    this.#requests++
    this.#timeline.add(time, !isAllowed)
    if (isAllowed) return
    this.#denied++
    const known = this.#keys.get(key)
    if (known !== undefined) known.add(time)
    else if (this.#keys.size < this.#maxKeys) this.#keys.set(copyText(key), new Denials().add(time))
    else this.#hasMoreKeys = true
  }

  report(): TallyReport {
    const denied = this.#isShadow ? 0 : this.#denied
    return {
      requests: this.#requests,
      admitted: this.#requests - denied,
      denied,
      shadow: this.#denied - denied,
      keysDenied: this.#keys.size,
      hasMoreKeys: this.#hasMoreKeys,
      hardest: this.#hardest(),
      timeline: this.#timeline.report(),
    }
  }

  #hardest(): DeniedKey[] {
    let most: [string, Denials][] = []
    for (const entry of this.#keys) {
      if (most.length === HARDEST && entry[1].count <= most.at(-1)![1].count) continue
      most = [...most, entry].toSorted(([, one], [, other]) => other.count - one.count).slice(0, HARDEST)
    }
    return most.map(([key, denials]) => denials.report(key))
  }
}

class Denials {
  count = 0
  #first = NaN
  #last = NaN
  #minute = NaN
  #inMinute = 0
  #worstMinute = NaN
  #worst = 0

  add(time: number): this {
    const minute = Math.floor(time / MINUTE)
    if (this.count++ === 0) this.#first = time
    this.#last = time
    this.#inMinute = minute === this.#minute ? this.#inMinute + 1 : 1
    this.#minute = minute
    if (this.#inMinute > this.#worst) {
      this.#worst = this.#inMinute
      this.#worstMinute = minute
    }
    return this
  }

  report(key: string): DeniedKey {
    return {
      key,
      denied: this.count,
      worstMinute: { at: iso(this.#worstMinute * MINUTE), denied: this.#worst },
      first: iso(this.#first),
      last: iso(this.#last),
    }
  }
}

function iso(time: number): string {
  return new Date(time).toISOString()
}
