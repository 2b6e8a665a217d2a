import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { afterAll, beforeAll, inject } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { madeOnce } from './made-once.ts'
import { ownPackages } from './own-packages.ts'
import { root } from './programs.ts'

/** Runs a program and returns its output, or fails with it. */
export function run(
  program: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd, env, maxBuffer: 2 ** 24 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout)
      else reject(new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`))
    })
  })
}

/** Runs a development tool of this repository. */
export function tool(name: string, args: readonly string[], cwd: string = root): Promise<string> {
  return run(join(root, 'node_modules', '.bin', name), args, cwd)
}

/** Runs a tool that checks packages. */
export async function ownTool(name: string, args: readonly string[]): Promise<string> {
  return run(join(await ownPackages('tools'), 'node_modules', '.bin', name), args, root)
}

/** Runs a file of a project and returns the JSON that it prints. */
export async function node(home: string, file: string, env?: NodeJS.ProcessEnv): Promise<unknown> {
  return JSON.parse(await run(process.execPath, [file], home, { ...process.env, ...env }))
}

/** Links packages of this repository into a project: the locked versions, without a download. */
export async function link(home: string, ...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await symlink(join(root, 'node_modules', name), join(home, 'node_modules', name), 'junction')
  }
}

export async function write(home: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(home, file)), { recursive: true })
    await writeFile(join(home, file), text)
  }
}

/** Returns the files of the installed package. */
export async function installed(home: string): Promise<Map<string, string>> {
  const base = join(home, 'node_modules', manifest.name)
  const entries = await readdir(base, { recursive: true, withFileTypes: true })
  const contents = new Map<string, string>()
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name)
    contents.set(relative(base, path).replaceAll('\\', '/'), await readFile(path, 'utf8'))
  }
  return contents
}

/** Packs a copy of the sources into their folder. */
async function packedCopy(copy: string): Promise<void> {
  const ours = (await readdir(root)).filter((name) => !['node_modules', 'dist', 'coverage', '.git'].includes(name))
  for (const name of ours) await cp(join(root, name), join(copy, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'), 'junction')
  await run('npm', ['pack'], copy)
}

/** The package as `npm publish` would send it, and projects that install it. */
export class PackedPackage {
  folder = ''
  tarball = ''
  #alone = ''

  /** Packs a copy of the sources, so that the tarball contains no output of another build, and installs it. Once a run. */
  async pack(): Promise<void> {
    this.folder = await mkdtemp(join(tmpdir(), 'sluice-packaging-'))
    const shared = inject('packedFolder')
    const copy = await madeOnce(`${shared}/sluice`, () => packedCopy(`${shared}/sluice`))
    this.tarball = join(copy, `${manifest.name}-${manifest.version}.tgz`)
    this.#alone = await madeOnce(`${shared}/alone`, () => this.#install(`${shared}/alone`, []))
  }

  async #install(home: string, packages: readonly string[]): Promise<void> {
    await write(home, { 'package.json': '{ "private": true }' })
    await run('npm', ['install', this.tarball, ...packages, '--no-audit', '--no-fund', '--prefer-offline'], home)
  }

  /** Makes a project with the package and other packages installed, these fields in its manifest and these files. */
  async project(
    name: string,
    fields: object,
    files: Readonly<Record<string, string>> = {},
    ...packages: readonly string[]
  ): Promise<string> {
    const home = join(this.folder, name)
    if (packages.length > 0) await this.#install(home, packages)
    else await cp(this.#alone, home, { recursive: true, verbatimSymlinks: true })
    const { dependencies } = JSON.parse(await readFile(join(home, 'package.json'), 'utf8')) as { dependencies: object }
    await write(home, { 'package.json': JSON.stringify({ name, private: true, ...fields, dependencies }), ...files })
    return home
  }
}

/** Packs the package before the tests of a file, and removes it and its projects after them. */
export function packedPackage(): PackedPackage {
  const packed = new PackedPackage()
  beforeAll(() => packed.pack())
  afterAll(() => rm(packed.folder, { recursive: true, force: true }))
  return packed
}
