/** The number of limiters of the same code, each dropped after one decision, after which there is a warning. */
const MANY = 100
const MOST_CODES = 1000

/** A limiter in use. It does not refer to the limiter, so that the limiter can be collected. */
interface Uses {
  readonly code: string
  readonly found: () => void
  decisions: number
}

/** The number of limiters that were dropped after one decision, by their code; `-Infinity` if one of them decided more often. */
const singles = new Map<string, number>()

/** A limiter that is kept, such as in a map with a limiter for each customer, is not collected. */
const registry =
  typeof FinalizationRegistry === 'undefined' ? undefined : new FinalizationRegistry<Uses>((uses) => countDropped(uses))

function countDropped({ code, decisions, found }: Uses): void {
  if (singles.size >= MOST_CODES) singles.clear()
  const count = (singles.get(code) ?? 0) + (decisions > 1 ? -Infinity : decisions)
  singles.set(code, count)
  if (count === MANY) found()
}

/**
 * Calls `found` when a hundred limiters of the same code were collected after one decision each: a handler creates a limiter for each request.
 * @param code the text of the keyer
 */
export function watchSingles(limiter: { consume(...given: never[]): unknown }, code: string, found: () => void): void {
  const uses = { code, found, decisions: 0 }
  const { consume } = limiter
  limiter.consume = function consumeCounted(...given) {
    uses.decisions++
    return Reflect.apply(consume, limiter, given)
  }
  registry?.register(limiter, uses)
}
