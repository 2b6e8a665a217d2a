/** The tolerated difference of clocks. The time of a key does not move until a clock that is behind by less has caught up. */
export const TOLERANCE_MS = 1000

/** How a limit measures time: ticks in a millisecond, and the cell of a state that holds its newest time, in units of `newestTicks`. */
interface Timed {
  readonly perMs: number
  readonly newest: number
  readonly newestTicks: number
}

/** Returns microseconds in ticks of a limit. */
export function ticks({ perMs }: Pick<Timed, 'perMs'>, now: number): number {
  return perMs === 1000 ? now : Math.floor(now / 1000)
}

/**
 * Returns whether a clock that ran ahead wrote the state at `cells[offset]`: its newest time is ahead of `tick` by more than the
 * tolerance. Such a state is moved to the present with its debt. So no client waits until the clock has caught
 * up, and no usage is forgotten.
 */
export function isAhead(
  { newest, newestTicks, perMs }: Timed,
  cells: Float64Array,
  offset: number,
  tick: number,
): boolean {
  return cells[offset + newest]! * newestTicks > tick + TOLERANCE_MS * perMs
}
