/** When requests would be admitted, one after another. Charges nothing. Times are epoch milliseconds of the store. */
export interface Forecast<Charge> {
  now(): number
  /**
   * Returns when charges would be admitted after all that were added before; `Infinity` when never.
   * @param keep true when those that are added later come after these
   */
  add(charges: readonly Charge[], keep: boolean): number
  /** Forgets a key under a limit: no request for it is left. */
  forget(charge: Charge): void
}
