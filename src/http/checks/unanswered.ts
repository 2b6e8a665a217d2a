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

/**
 * Does the same if the framework answers when `onDenied` has returned: its promise may stay pending.
 * @param answer the promise that `onDenied` returned
 * @param isAnswered returns true when the response does not wait for the promise
 * @returns a promise with the same result. A thenable is called once
 */
export function warnIfPending<Answer>(onDenied: object, answer: Answer, isAnswered: () => boolean): Answer {
  let isSettled = false
  const settled = (): void => void (isSettled = true)
  const promise = Promise.resolve(answer)
  promise.then(settled, settled)
  warnIfUnanswered(onDenied, () => isSettled || isAnswered())
  return promise as Answer
}
