// Runs the program of docs/extending/etcd-and-deno-kv.md that is for Deno, with Deno, which checks its types with strict flags.
import { spawn } from 'node:child_process'
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, it } from 'vitest'
import { builtPackage } from '../support/built.ts'
import { ownPackages } from '../support/own-packages.ts'
import { readPage } from '../support/pages.ts'
import { blocksOf, root, verifyOutput } from '../support/programs.ts'

const { code } = blocksOf(readPage('docs/extending/etcd-and-deno-kv.md')).find(
  ({ language }) => language === 'ts deno',
)!
let home: string
let deno: string

beforeAll(async () => {
  deno = join(await ownPackages('deno'), 'node_modules/.bin/deno')
  home = await mkdtemp(join(tmpdir(), 'sluice-deno-'))
  // Deno resolves the files of a package as Node does only within node_modules.
  const ours = join(home, 'node_modules/sluice')
  await cp(await builtPackage(), join(ours, 'dist'), { recursive: true })
  await cp(join(root, 'package.json'), join(ours, 'package.json'))
  for (const name of ['fast-check', 'pure-rand'])
    await symlink(join(root, 'node_modules', name), join(home, 'node_modules', name), 'junction')
  await writeFile(join(home, 'package.json'), JSON.stringify({ dependencies: { sluice: '*' } }))
  await writeFile(join(home, 'limits.ts'), code)
}, 240_000)
afterAll(() => rm(home, { recursive: true, force: true }))

it('the program for Deno KV passes the suite of stores, and two of its stores share a quota', async () => {
  await rm(join(home, 'limits.db'), { force: true }) // of a run before
  const rights = ['--unstable-kv', '--allow-read', '--allow-write']
  const words = ['run', '--quiet', '--check', '--no-remote', ...rights, 'limits.ts']
  const env = { ...process.env, DENO_DIR: join(home, 'cache'), DENO_NO_UPDATE_CHECK: '1' }
  const child = spawn(deno, words, { cwd: home, env, stdio: 'pipe' })
  await verifyOutput(child, code)
}, 240_000)
