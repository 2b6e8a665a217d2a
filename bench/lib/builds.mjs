import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { npm } from './setup.mjs'

const current = fileURLToPath(new URL('../..', import.meta.url))

/**
 * A build of the package to measure.
 * @typedef {{ name: 'before' | 'after' | 'sluice', root: string, version: string }} Build
 */

/**
 * Returns the builds to measure: this checkout, and before it the other build when one is named. Ours is always the last.
 * @param {string | undefined} against a folder or a git ref
 * @returns {Build[]}
 */
export function chooseBuilds(against) {
  build(current)
  const version = versionOf(current)
  if (against === undefined) return [{ name: 'sluice', root: current, version }]
  return [
    { name: 'before', ...otherBuild(against) },
    { name: 'after', root: current, version },
  ]
}

function otherBuild(against) {
  const folder = resolve(against)
  if (!existsSync(join(folder, 'package.json'))) return checkOut(against)
  build(folder)
  return { root: folder, version: versionOf(folder) }
}

/** Builds a git ref in a temporary folder, which is removed when this process ends. */
function checkOut(ref) {
  const version = commitOf(ref)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const root = join(folder, 'package')
  const archive = join(folder, 'package.tar')
  mkdirSync(root)
  git(current, 'archive', '--output', archive, version)
  execFileSync('tar', ['-xf', archive, '-C', root])
  provideModules(root)
  build(root)
  return { root, version }
}

function commitOf(ref) {
  try {
    return git(current, 'rev-parse', '--verify', '--quiet', '--short', `${ref}^{commit}`)
  } catch (cause) {
    throw new Error(`--against: expected a git ref or a folder with a package, got ${JSON.stringify(ref)}`, { cause })
  }
}

/** Links the installed packages of this checkout where both lock the same ones, and installs others. */
function provideModules(root) {
  const lock = (folder) => readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (lock(root) === lock(current)) symlinkSync(join(current, 'node_modules'), join(root, 'node_modules'), 'dir')
  else npm(root, 'ci')
}

/** Builds the package where it was not, or where a source is newer than the build. */
function build(root) {
  const newestSource = Math.max(...['src', 'adapters'].map((each) => newestIn(join(root, each))))
  if (newestSource < newestIn(join(root, 'dist'))) return
  console.error('Building the package…')
  npm(root, 'run', 'build')
}

function newestIn(folder) {
  if (!existsSync(folder)) return 0
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return Math.max(0, ...files.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs))
}

/** The commit of a checkout, with a `+` when its sources were changed since. */
function versionOf(root) {
  try {
    const changes = git(root, 'status', '--porcelain', '--', 'src', 'adapters')
    return git(root, 'rev-parse', '--short', 'HEAD') + (changes === '' ? '' : '+')
  } catch {
    return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version
  }
}

function git(cwd, ...args) {
  return execFileSync('git', args, { cwd, encoding: 'utf8' }).trim()
}
