/** The tolerated difference between clocks, in milliseconds. If a clock is behind by less, the time of a key stands still until it has caught up. */
export const TOLERANCE_MS = 1000

/** How a limit measures time: the ticks in a millisecond, and the cell of a state with its newest time, in units of `newestTicks`. */
interface Timed {
  readonly perMs: number
  readonly newest: number
  readonly newestTicks: number
}

/** Converts microseconds to ticks of a limit. */
export function ticks({ perMs }: Pick<Timed, 'perMs'>, now: number): number {
  return perMs === 1000 ? now : Math.floor(now / 1000)
}

/**
 * Returns true if a clock that ran ahead wrote the state at `cells[offset]`: its newest time is ahead of `tick` by more than the
 * tolerance. Such a state is moved to the present with its debt. So no client waits for the clock to catch up, and no usage is
 * forgotten.
 */
export function isAhead(
  { newest, newestTicks, perMs }: Timed,
  cells: Float64Array,
  offset: number,
  tick: number,
): boolean {
  return cells[offset + newest]! * newestTicks > tick + TOLERANCE_MS * perMs
}
