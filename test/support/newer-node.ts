import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Returns the path of a Node that has `node:sqlite`: this one, else Node 24 from npm. */
export function newerNode(): string {
  if (process.getBuiltinModule?.('node:sqlite') !== undefined) return process.execPath
  const folder = join(tmpdir(), 'sluice-node-24')
  const path = join(folder, 'node_modules', 'node', 'bin', 'node')
  mkdirSync(folder, { recursive: true })
  // Other tests that install it at the same time wait.
  if (!existsSync(path))
    execFileSync('flock', ['--timeout', '300', folder, 'npm', 'install', '--prefix', folder, 'node@24'], {
      stdio: 'ignore',
    })
  return path
}
