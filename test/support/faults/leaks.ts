import type { EventEmitter } from 'node:events'
import { createHook } from 'node:async_hooks'

/** The resources of a process: those that keep it alive, and timers that were started by the package. */
export interface Watch {
  /** Listeners of an emitter, by event. Call it before and after. */
  listeners(emitter: unknown): string[]
  /** What exists now and did not exist at the start. */
  leaks(): string[]
  rejections(): number
  stop(): void
}

/** Watches what is started and not ended, and unhandled rejections. */
export function watch(): Watch {
  const before = counted(process.getActiveResourcesInfo())
  const timers = new Map<number, string>()
  const hook = createHook({
    init(id, type) {
      if (type === 'Timeout' && isOurs(new Error('place').stack)) timers.set(id, 'timer of the package')
    },
    destroy: (id) => void timers.delete(id),
  }).enable()
  let rejections = 0
  const note = (): void => void rejections++
  process.on('unhandledRejection', note)
  return {
    listeners,
    leaks: () => [...timers.values(), ...added(before, counted(process.getActiveResourcesInfo()))],
    rejections: () => rejections,
    stop() {
      hook.disable()
      process.off('unhandledRejection', note)
    },
  }
}

/** True if a function of the package is on the stack. */
function isOurs(stack = ''): boolean {
  return /\/src\/(stores|limiter|util)\//.test(stack)
}

function listeners(emitter: unknown): string[] {
  const { eventNames, listenerCount } = emitter as Partial<EventEmitter>
  if (eventNames === undefined || listenerCount === undefined) return []
  const names = eventNames.call(emitter as EventEmitter)
  return names.map((name) => `${String(name)} ${listenerCount.call(emitter as EventEmitter, name)}`).toSorted()
}

function counted(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

function added(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): string[] {
  return [...after].filter(([name, count]) => count > (before.get(name) ?? 0)).map(([name]) => name)
}
