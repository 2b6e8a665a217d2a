import { warn } from '../../util/warn.ts'

/** How long an `onDenied` may take until a warning says that it has not answered. */
const PATIENCE = 10_000

const MESSAGE =
  'An `onDenied` has returned, but has not answered for 10 s. The client waits. Send a response, or call `next` if there is one.'

/** The `onDenied` functions that are watched, or that a warning was written for. */
const watched = new WeakSet<object>()

/**
 * Warns once for each `onDenied` that has returned and does not answer within ten seconds: its client waits. It watches one
 * response at a time, and keeps no process alive.
 */
export function warnIfUnanswered(onDenied: object, isAnswered: () => boolean): void {
  if (isAnswered() || watched.has(onDenied)) return
  watched.add(onDenied)
  const timer: unknown = setTimeout(() => {
    if (isAnswered()) watched.delete(onDenied)
    else warn('SLUICE_NOT_ANSWERED', MESSAGE)
  }, PATIENCE)
  // Some runtimes have timers that are numbers.
  ;(timer as { unref?(): void }).unref?.()
}
