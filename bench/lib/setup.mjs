import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const bench = fileURLToPath(new URL('..', import.meta.url))

/** Installs the peers (bench/package-lock.json) where they are missing or outdated. */
export function installPeers() {
  const installed = join(bench, 'node_modules/.package-lock.json')
  const lock = join(bench, 'package-lock.json')
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return
  console.error('Installing the peers (bench/package-lock.json)…')
  npm(bench, 'ci')
}

/** Runs an npm command in a folder; its output goes to stderr. */
export function npm(folder, ...args) {
  const command = process.platform === 'win32' ? 'npm.cmd' : 'npm'
  execFileSync(command, args, { cwd: folder, stdio: ['ignore', 2, 2] })
}

/** True when a command is on the PATH. */
export function isInstalled(command) {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Installs a Debian package where that is possible. Returns true when its command is on the PATH afterwards. */
export function installed(command, aptPackage = command) {
  if (isInstalled(command)) return true
  if (process.platform !== 'linux' || process.getuid() !== 0 || !isInstalled('apt-get')) return false
  console.error(`Installing ${aptPackage}…`)
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    execFileSync('apt-get', ['update', '-qq'], { stdio: 'ignore', env })
    execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', aptPackage], { stdio: 'ignore', env })
  } catch {
    return false
  }
  return isInstalled(command)
}
