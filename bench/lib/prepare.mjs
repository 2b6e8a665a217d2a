import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const bench = fileURLToPath(new URL('..', import.meta.url))
const root = fileURLToPath(new URL('../..', import.meta.url))

/** Installs what `bench/` depends on where that is missing, builds the package where it was not, and links it in. */
export function prepare() {
  if (outdated(join(bench, 'node_modules/.package-lock.json'), join(bench, 'package-lock.json'))) {
    console.error('Installing the peers (bench/package-lock.json)…')
    npm('ci', bench)
  }
  if (!existsSync(join(root, 'dist/src/index.js'))) {
    console.error('Building the package…')
    npm('run build', root)
  }
  link(join(bench, 'node_modules/sluice'))
  const newest = Math.max(...['src', 'adapters'].map((each) => newestIn(join(root, each))))
  if (newest > newestIn(join(root, 'dist')))
    console.error('dist/ is older than src/: `npm run build` first to measure what you last wrote.\n')
}

/** The package as one who installed it has it: found by its name, through its `exports`. */
function link(path) {
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) rmSync(path, { recursive: true })
  symlinkSync('../..', path, 'dir')
}

function npm(command, cwd) {
  execFileSync(process.platform === 'win32' ? 'npm.cmd' : 'npm', command.split(' '), { cwd, stdio: ['ignore', 2, 2] })
}

function outdated(made, from) {
  return !existsSync(made) || statSync(made).mtimeMs < statSync(from).mtimeMs
}

function newestIn(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return Math.max(0, ...files.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs))
}
