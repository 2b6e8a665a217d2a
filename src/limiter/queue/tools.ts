import type * as queueTools from '../queue-tools.ts'

/**
 * The parts of the package that the code of queues uses. It receives them and imports only types: a bundler puts a module that both sides import into a
 * file of its own, or into its own function if it makes one file.
 */
export type QueueTools = typeof queueTools

export let tools: QueueTools

/** Must be called before anything else in this folder. */
export function takeTools(given: QueueTools): void {
  tools = given
}
