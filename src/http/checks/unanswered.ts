import { tools } from './tools.ts'

/** Milliseconds within which an `onDenied` must answer. After that, there is a warning. */
const PATIENCE = 10_000

const MESSAGE =
  'An `onDenied` function has sent no response for 10 s, so the client is still waiting. Send a response, or call `next` if there is one.'

/** The `onDenied` functions that are watched, or have had a warning. */
const watched = new WeakSet<object>()

/**
 * Warns once for each `onDenied` that does not answer within ten seconds, while its client waits. It watches one response at a time, and does not keep the
 * process alive.
 */
export function warnIfUnanswered(onDenied: object, isAnswered: () => boolean): void {
  if (isAnswered() || watched.has(onDenied)) return
  watched.add(onDenied)
  const timer: unknown = setTimeout(() => {
    if (isAnswered()) watched.delete(onDenied)
    else tools.warn('SLUICE_NOT_ANSWERED', MESSAGE)
  }, PATIENCE)
  // Some runtimes have timers that are numbers.
  ;(timer as { unref?(): void }).unref?.()
}
