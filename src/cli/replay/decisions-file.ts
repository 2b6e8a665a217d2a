import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import type { LimitStatus } from '../../stores/store.ts'
import type { LogEntry } from '../logs/entry.ts'

const BUFFERED = 65_536

/** Writes every decision as a line of JSON. */
export interface DecisionsFile {
  /** False for a pipe or a device, which cannot be cleared. */
  readonly isFile: boolean
  /** Empties the file. The first decision is written after it. */
  clear(): void
  add(entry: LogEntry, file: string, allowed: boolean | undefined, limits: readonly LimitStatus[]): void
  close(): void
}

/** Opens a file of decisions. */
export function openDecisions(path: string): DecisionsFile {
  const descriptor = opened(path)
  const isFile = fstatSync(descriptor).isFile()
  let buffer = ''
  return {
    isFile,
    clear() {
      buffer = ''
      if (isFile) ftruncateSync(descriptor)
    },
    add({ request, line }, file, allowed, limits) {
      const time = new Date(request.time).toISOString()
      buffer += `${JSON.stringify({ file, line, time, allowed, limits: limits.map(verdict) })}\n`
      if (buffer.length < BUFFERED) return
      writeSync(descriptor, buffer)
      buffer = ''
    },
    close() {
      writeSync(descriptor, buffer)
      closeSync(descriptor)
    },
  }
}

function opened(path: string): number {
  try {
    // Writes at the end of the file, which moves when the file is cleared.
    return openSync(path, 'a')
  } catch (cause) {
    throw new Error(`--decisions: ${(cause as Error).message}`, { cause })
  }
}

function verdict({ limiter, limit, key, allowed, remaining, retryAfter, resetAfter }: LimitStatus): object {
  return { limiter, limit: limit.name, key, allowed, remaining, retryAfter, resetAfter }
}
