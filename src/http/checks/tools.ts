import type * as checkTools from '../check-tools.ts'

export let tools: typeof checkTools

/** Must be called before anything else in this folder: see `src/limiter/queue/tools.ts`. */
export function takeTools(given: typeof checkTools): void {
  tools = given
}
