// A memory store in one process of several counts only that process. Workers run what is built from these sources.
import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { isKnownAsOneOfSeveral, isOneOfSeveral } from '../../../src/stores/memory/cluster-warning.ts'

vi.setConfig({ hookTimeout: 120_000, testTimeout: 60_000 })

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../..', import.meta.url))
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-cluster-'))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  await run(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--outDir', join(folder, 'dist')], { cwd: root })
})

afterAll(() => rm(folder, { recursive: true, force: true }))

const limiters = `
  import { createLimiter, everyone, memoryStore, perMinute } from './dist/src/index.js'
  memoryStore()
  createLimiter({ keyer: everyone, limits: perMinute(1) })
  memoryStore({ maxKeys: 10 })
`

/** Runs a program and returns its warnings, each with the line that caused it. */
async function warningsOf(name: string, program: string, env: NodeJS.ProcessEnv = {}): Promise<readonly string[]> {
  await writeFile(join(folder, name), program)
  const { stderr } = await run(process.execPath, [join(folder, name)], { env: { PATH: process.env['PATH'], ...env } })
  return stderr.split('\n').filter((line) => line.includes('Warning'))
}

const ONCE = [
  expect.stringContaining(
    '[SLUICE_PER_PROCESS] SluiceWarning: An app with several processes or threads uses memoryStore()',
  ),
]

describe('a memory store warns', () => {
  test('once, in each worker of a cluster, and not in its primary', async () => {
    const program = `
      import cluster from 'node:cluster'
      ${limiters}
      if (cluster.isPrimary) for (let i = 0; i < 2; i++) cluster.fork()
      else process.disconnect()`
    expect(await warningsOf('cluster.js', program)).toEqual([...ONCE, ...ONCE])
  })

  test('and says what to do', async () => {
    const program = `
      import cluster from 'node:cluster'
      ${limiters}
      if (cluster.isPrimary) cluster.fork()
      else process.disconnect()`
    const [line] = await warningsOf('advice.js', program)
    expect(line).toMatch(/redisStore\(client\) from 'sluice\/redis'.*--disable-warning=SLUICE_PER_PROCESS/)
  })

  test('once in each worker thread, and not in the main thread', async () => {
    const program = `
      import { isMainThread, Worker } from 'node:worker_threads'
      ${limiters}
      if (isMainThread) for (let i = 0; i < 2; i++) new Worker(new URL(import.meta.url))`
    expect(await warningsOf('threads.js', program)).toEqual([...ONCE, ...ONCE])
  })

  test('not in a single process, nor in one that was forked without a cluster', async () => {
    expect(await warningsOf('alone.js', limiters)).toEqual([])
    const forked = `import { fork } from 'node:child_process'\nfork(new URL('./alone.js', import.meta.url))`
    expect(await warningsOf('forked.js', forked)).toEqual([])
  })

  test('in an instance under pm2', async () => {
    const env = { pm_id: '3', NODE_APP_INSTANCE: '1', exec_mode: 'fork_mode' }
    expect(await warningsOf('instance.js', limiters, env)).toEqual(ONCE)
  })
})

describe('one of several is', () => {
  const cluster = (isWorker: boolean) => ({ send() {}, getBuiltinModule: () => ({ isWorker }) })

  test.each([
    ['no process without an environment', {}, false],
    ['a worker', cluster(true), true],
    ['no primary that is a child itself', cluster(false), false],
    ['no child of a runtime that cannot be asked', { send() {} }, false],
    ['a worker of a runtime that leaves its mark', { env: { NODE_UNIQUE_ID: '1' } }, true],
    [
      'any instance in pm2’s cluster mode',
      { env: { pm_id: '0', NODE_APP_INSTANCE: '0', exec_mode: 'cluster_mode' } },
      true,
    ],
    [
      'not the only instance in it, though a worker',
      { ...cluster(true), env: { pm_id: '0', NODE_APP_INSTANCE: '0', exec_mode: 'cluster_mode', instances: '1' } },
      false,
    ],
    ['a second instance in fork mode', { env: { pm_id: '4', NODE_APP_INSTANCE: '1', exec_mode: 'fork_mode' } }, true],
    ['not the first in fork mode', { env: { pm_id: '3', NODE_APP_INSTANCE: '0', exec_mode: 'fork_mode' } }, false],
    [
      'a worker that an app starts itself under pm2',
      { ...cluster(true), env: { pm_id: '3', exec_mode: 'fork_mode' } },
      true,
    ],
  ])('%s', (_what, process, expected) => {
    expect(isOneOfSeveral(process)).toBe(expected)
    expect(isKnownAsOneOfSeveral(process)).toBe(expected)
  })

  test('no process whose environment cannot be read', () => {
    const forbidden = (): never => {
      throw new Error('requires env access')
    }
    expect(isKnownAsOneOfSeveral({ env: new Proxy({}, { get: forbidden }) })).toBe(false)
    expect(isKnownAsOneOfSeveral({ send() {}, getBuiltinModule: forbidden })).toBe(false)
  })
})
