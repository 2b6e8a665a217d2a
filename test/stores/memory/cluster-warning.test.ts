// A memory store in one process of several counts only that process. Workers run what is built from these sources.
import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { builtPackage } from '../../support/built.ts'
import { isOneOfSeveral } from '../../../src/stores/memory/cluster-warning.ts'

vi.setConfig({ hookTimeout: 120_000, testTimeout: 60_000 })

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../..', import.meta.url))
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-cluster-'))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const built = await builtPackage()
  for (const copy of ['dist', 'copy']) await cp(built, join(folder, copy), { recursive: true })
})

afterAll(() => rm(folder, { recursive: true, force: true }))

const limiters = `
  import { createLimiter, everyone, memoryStore, perMinute } from './dist/src/index.js'
  memoryStore()
  createLimiter({ keyer: everyone, limits: perMinute(1) })
  memoryStore({ maxKeys: 10 })
  // The text of a warning is loaded when it is needed.
  const disconnect = () => {
    setTimeout(() => process.disconnect(), 20_000).unref()
    process.once('warning', () => process.disconnect())
  }
`

/** A cluster of so many workers. */
const clusterOf = (workers: number): string => `
  import cluster from 'node:cluster'
  ${limiters}
  if (cluster.isPrimary) for (let i = 0; i < ${workers}; i++) cluster.fork()
  else disconnect()`

/** A thread that waits until it has warned, but no longer than `ms` after all threads have created their stores. */
const thread = (ms: number): string => `
  import { isMainThread, parentPort, Worker } from 'node:worker_threads'
  ${limiters}
  const warned = new Promise((resolve) => process.once('warning', resolve))
  parentPort?.once('message', () => {
    const end = setTimeout(() => {}, ${ms})
    // The others may not listen yet.
    void warned.then(() => setTimeout(() => clearTimeout(end), ${LISTENING}))
  })
  parentPort?.postMessage('ready')`

const LONG_ENOUGH = 20_000
const LISTENING = 1000
const HALF_A_SECOND = 500

/** A program that starts threads of some files, by default of itself, with these variables in their environments. */
function threads(ms: number, files: readonly (string | undefined)[], envs: readonly object[] = [{}]): string {
  return `
    ${thread(ms)}
    if (isMainThread) {
      const urls = ${JSON.stringify(files.map((file) => file ?? null))}.map((file) => new URL(file ?? import.meta.url, import.meta.url))
      const workers = ${JSON.stringify(envs)}.flatMap((env) => urls.map((url) => new Worker(url, { env: { ...process.env, ...env } })))
      await Promise.all(workers.map((each) => new Promise((resolve) => each.once('message', resolve))))
      for (const each of workers) each.postMessage('end')
    }`
}

const itself = (times: number): undefined[] => Array.from({ length: times })

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
  test('once, in each worker of a cluster, and not in its primary, and says what to do', async () => {
    const lines = await warningsOf('cluster.js', clusterOf(2))
    expect(lines).toEqual([...ONCE, ...ONCE])
    expect(lines[0]).toMatch(/redisStore\(client\) from 'sluice\/redis'.*--disable-warning=SLUICE_PER_PROCESS/)
  })

  test('also for SQLite in memory', async () => {
    const program = `
      import cluster from 'node:cluster'
      import { sqliteStore } from './dist/src/stores/sqlite.js'
      sqliteStore(':memory:')
      if (cluster.isPrimary) cluster.fork()
      else {
        setTimeout(() => process.disconnect(), 20_000).unref()
        process.once('warning', () => process.disconnect())
      }`
    expect(await warningsOf('sqlite.js', program)).toEqual(expect.arrayContaining(ONCE))
  })

  test('once in each thread that runs the same file, and not in the main thread', async () => {
    const program = threads(LONG_ENOUGH, itself(3))
    expect(await warningsOf('threads.js', program)).toEqual([...ONCE, ...ONCE, ...ONCE])
  })

  test('not in threads that run different files, and not in a thread that is alone', async () => {
    const files = ['one.js', 'other.js']
    for (const file of files) await writeFile(join(folder, file), thread(HALF_A_SECOND))
    expect(await warningsOf('apart.js', threads(HALF_A_SECOND, files))).toEqual([])
    expect(await warningsOf('single.js', threads(HALF_A_SECOND, itself(1)))).toEqual([])
  })

  test('not in a thread with two copies of the package', async () => {
    const copy = "import('./copy/src/index.js').then((copy) => copy.memoryStore())"
    await writeFile(join(folder, 'copies.js'), `${thread(HALF_A_SECOND)}\n${copy}`)
    expect(await warningsOf('two-copies.js', threads(HALF_A_SECOND, ['copies.js']))).toEqual([])
  })

  test('not in the threads of a test runner: Vitest, Jest, node --test, Mocha, AVA, Bun and others', async () => {
    const envs = [
      { VITEST: 'true' },
      { JEST_WORKER_ID: '1' },
      { NODE_TEST_CONTEXT: 'child-v8' },
      { MOCHA_WORKER_ID: '0' },
      { NODE_ENV: 'test' },
    ]
    expect(await warningsOf('tests.js', threads(HALF_A_SECOND, itself(2), envs))).toEqual([])
  })

  test('in the workers of a cluster, also when a test starts them', async () => {
    const env = { VITEST: 'true', NODE_ENV: 'test' }
    expect(await warningsOf('tested-cluster.js', clusterOf(1), env)).toEqual(ONCE)
  })
})

describe('one of several is', () => {
  const env = { AWS_LAMBDA_FUNCTION_NAME: 'api' }
  const cluster = (isWorker: boolean) => ({ send() {}, getBuiltinModule: () => ({ isWorker }) })

  test.each([
    ['no process without an environment', {}, false],
    ['a worker', cluster(true), true],
    ['no primary that is a child itself', cluster(false), false],
    ['no child of a runtime that cannot be asked', { send() {} }, false],
    ['an instance of a function', { env }, true],
    ['no test of a function', { env: { ...env, VITEST: 'true' } }, false],
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
  })

  test('no process whose environment cannot be read', () => {
    const forbidden = (): never => {
      throw new Error('requires env access')
    }
    expect(isOneOfSeveral({ env: new Proxy({}, { get: forbidden }) })).toBe(false)
    expect(isOneOfSeveral({ send() {}, getBuiltinModule: forbidden })).toBe(false)
  })
})
