import { expect, it } from 'vitest'
import { type Threads, watchThreads } from '../../src/util/warnings/threads.ts'

type Channel = InstanceType<Threads['BroadcastChannel']>

/** Threads of one process. Returns a function that starts one, and returns how often it has found another. */
function machine(): (threadId: number, file: string) => { readonly found: number } {
  const channels: Channel[] = []
  class BroadcastChannel implements Channel {
    onmessage: Channel['onmessage'] = null
    constructor() {
      channels.push(this)
    }
    postMessage(data: Parameters<Channel['postMessage']>[0]): void {
      for (const each of channels) if (each !== this) each.onmessage?.({ data })
    }
    unref(): void {}
  }
  return (threadId, file) => {
    const thread = { found: 0 }
    watchThreads({ threadId, BroadcastChannel }, file, () => void thread.found++)
    return thread
  }
}

it('two threads with the same file find each other', () => {
  const start = machine()
  expect([start(1, 'app.js'), start(2, 'app.js')]).toEqual([{ found: 1 }, { found: 1 }])
})

it.each([
  ['with different files', 2, 'other.js'],
  ['with one id, which are two copies of the package in one thread', 1, 'app.js'],
])('threads %s do not find each other', (_, threadId, file) => {
  const start = machine()
  expect([start(1, 'app.js'), start(threadId, file)]).toEqual([{ found: 0 }, { found: 0 }])
})
