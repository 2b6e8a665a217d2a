import { spawn } from 'node:child_process'
import { join, relative } from 'node:path'
import { text } from 'node:stream/consumers'

/** A mutation can make a test run forever. */
const LIMIT_MS = 120_000

const controller = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => controller.abort())
/** Is aborted when the run is interrupted, which ends its tests. */
export const interruption = controller.signal

const OPTIONS = [
  '--bail=1',
  '--maxWorkers=1',
  '--testTimeout=60000',
  '--reporter=json',
  '--passWithNoTests',
  '--exclude=test/mutations/**',
]

/**
 * Runs the tests of a scope until the first one fails.
 * @param options `part` is what runs: `quick` is `npm test`, `rest` is what `npm run test:all` adds, and both run without it
 * @returns {Promise<{ file: string, title: string } | undefined>} the test that failed
 */
export async function failure(folder, { files, name }, { part = '', limitMs = LIMIT_MS, retry = 0 } = {}) {
  const named = name === undefined ? [] : ['--testNamePattern', name]
  const { out, errors, ended } = await vitest(
    folder,
    [`--project=${part}*`, `--retry=${retry}`, ...named, ...files],
    limitMs,
  )
  if (!ended) return { file: files.join(', '), title: `no test: it did not end within ${limitMs / 1000} s` }
  if (out === '') throw new Error(`The tests did not run:\n${errors}`)
  return firstFailure(JSON.parse(out.slice(out.indexOf('{'))), folder)
}

async function vitest(folder, args, limitMs) {
  const child = spawn(process.execPath, [join(folder, 'node_modules/vitest/vitest.mjs'), 'run', ...OPTIONS, ...args], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, SLUICE_EQUALITY: process.env.SLUICE_EQUALITY ?? '20000' },
    detached: true,
  })
  // The whole group: vitest runs tests in separate processes.
  const stop = () => process.kill(-Number(child.pid), 'SIGKILL')
  const signal = AbortSignal.any([interruption, AbortSignal.timeout(limitMs)])
  signal.addEventListener('abort', stop)
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  signal.removeEventListener('abort', stop)
  return { out, errors, ended: !signal.aborted }
}

function firstFailure({ success, testResults }, folder) {
  if (success) return undefined
  for (const { name, message, assertionResults } of testResults) {
    const failed = assertionResults.find(({ status }) => status === 'failed')
    if (failed !== undefined) return { file: relative(folder, name), title: failed.fullName.trim() }
    if (message !== '') throw new Error(`${name} did not load:\n${message}`)
  }
  throw new Error('No test failed, but the run did')
}
