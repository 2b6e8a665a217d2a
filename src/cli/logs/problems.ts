import { roughDuration } from '../../util/duration.ts'

/** A line that was not read. */
export interface Sample {
  readonly file: string
  readonly line: number
  /** The start of the line. */
  readonly text: string
}

/** Lines that were not read for one reason. */
export interface Unread {
  readonly reason: string
  readonly lines: number
  /** The first of them. */
  readonly samples: readonly Sample[]
}

const MOST_SAMPLES = 3
const SAMPLE_LENGTH = 120

/** Counts the lines of logs, and why some of them are not read. */
export class Problems {
  /** Lines that are not empty. */
  lines = 0
  /** Lines that came later than the reorder window and are omitted. */
  late = 0
  /** The longest of these delays, in milliseconds. */
  latest = 0
  /** Lines of files that came later than the reorder window and were sorted. */
  sorted = 0
  /** Requests without a key. */
  withoutKey = 0
  /** True once a time has a fraction of a second. */
  hasFractions = false
  /** Sentences about whole files. */
  readonly notes: string[] = []
  readonly #byReason = new Map<string, { readonly reason: string; lines: number; samples: Sample[] }>()

  count(reason: string, file: string, line: number, text: string): void {
    const found = this.#byReason.get(reason) ?? { reason, lines: 0, samples: [] }
    this.#byReason.set(reason, found)
    found.lines++
    if (found.samples.length >= MOST_SAMPLES) return
    const start = text.length > SAMPLE_LENGTH ? `${text.slice(0, SAMPLE_LENGTH)}…` : ` ${text}`.slice(1)
    found.samples.push({ file, line, text: start })
  }

  countLate(by: number, file: string, line: number, text: string): void {
    this.late++
    if (by > this.latest) this.latest = by
    this.count(LATE, file, line, text)
  }

  /** The most frequent reason first. */
  get unread(): Unread[] {
    return [...this.#byReason.values()].toSorted((one, other) => other.lines - one.lines)
  }
}

const LATE = 'later than the reorder window'

/** Says how late the lines are that a reorder window does not take. */
export function lateText(reorder: number): string {
  return reorder === 0 ? 'out of order' : `more than ${roughDuration(reorder)} late`
}
