/** The part of `node:worker_threads` with which threads find each other. */
export interface Threads {
  readonly isMainThread: boolean
  readonly threadId: number
  readonly BroadcastChannel: new (name: string) => {
    onmessage: ((message: { readonly data: ThreadMessage }) => void) | null
    postMessage(data: ThreadMessage): void
    unref(): void
  }
}

interface ThreadMessage {
  readonly file: string
  readonly from: number | undefined
  readonly isReply: boolean
}

/**
 * Calls `found` in a worker thread when another thread with the same file also has a memory store. Threads with different files may be parts of
 * one app with different limits.
 */
export function watchThreads(threads: Partial<Threads>, file: string, found: () => void): void {
  if (threads.BroadcastChannel === undefined) return
  const { threadId: from } = threads
  const channel = new threads.BroadcastChannel('sluice: memory stores of threads')
  function send(isReply: boolean): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel between threads has no origin
    channel.postMessage({ file, from, isReply })
  }
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the channel has only this listener
  channel.onmessage = function foundThread({ data }) {
    // A message with the same thread id is from a second copy of this package.
    if (data.file !== file || data.from === from) return
    if (!data.isReply) send(true)
    found()
  }
  channel.unref()
  send(false)
}
