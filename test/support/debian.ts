import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Returns the path of a program: of an installed one, else from Debian's package. Throws an error that says what to do.
 * @param find a command of the shell that prints the path, or nothing
 * @param name of the Debian package
 * @param missing what to do if it cannot be installed
 */
export function programPath(find: string, name: string, missing: string): string {
  const present = pathFrom(find)
  if (present !== undefined) return present
  try {
    install(name)
  } catch (cause) {
    throw new Error(missing, { cause })
  }
  return pathFrom(find)!
}

function pathFrom(find: string): string | undefined {
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? ''}:/usr/sbin` }
  try {
    return execFileSync('sh', ['-c', find], { encoding: 'utf8', env }).trim() || undefined
  } catch {
    return undefined
  }
}

/** Installs a package. Other tests that install one at the same time wait. Its service does not start. */
function install(name: string): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  const apt = 'apt-get -o DPkg::Lock::Timeout=120'
  const command = `${apt} update; ${apt} install -y --no-install-recommends ${name}`
  const lock = join(tmpdir(), 'sluice-apt-get.lock')
  execFileSync('flock', ['--timeout', '300', lock, 'sh', '-c', command], { stdio: 'ignore', env })
}
