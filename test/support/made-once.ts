// What several processes need and one of them makes, while the others wait.
import { existsSync, mkdirSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

/** Work that takes longer than this was killed. */
const KILLED_AFTER_MS = 600_000

/** Makes a folder, unless it is made. One process at a time does so. What was made in part is removed before. */
export async function madeOnce(folder: string, make: () => Promise<void>): Promise<string> {
  const done = `${folder}.done`
  mkdirSync(dirname(folder), { recursive: true })
  while (!existsSync(done)) {
    if (await isLocked(`${folder}.lock`)) continue
    try {
      if (existsSync(done)) break
      rmSync(folder, { recursive: true, force: true })
      await make()
      writeFileSync(done, '')
    } finally {
      rmdirSync(`${folder}.lock`)
    }
  }
  return folder
}

/** Creates the lock, which one process at a time can. Else waits a moment and returns true. */
async function isLocked(lock: string): Promise<boolean> {
  try {
    mkdirSync(lock)
    return false
  } catch {
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Date.now() - since > KILLED_AFTER_MS) rmSync(lock, { recursive: true, force: true })
    await pause(100)
    return true
  }
}
