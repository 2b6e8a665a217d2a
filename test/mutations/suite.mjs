import { spawn } from 'node:child_process'
import { join, relative } from 'node:path'
import { text } from 'node:stream/consumers'

/** A mutation may never end. */
const LIMIT_MS = 120_000

/**
 * Runs the tests of a scope until the first one fails.
 * @returns {Promise<string | undefined>} the test that failed, if one did
 */
export async function failure(folder, { files, name }) {
  const named = name === undefined ? [] : ['--testNamePattern', name]
  const options = [
    '--bail=1',
    '--maxWorkers=1',
    '--testTimeout=60000',
    '--reporter=json',
    '--exclude=test/mutations/**',
  ]
  // A slip in TypeScript is to be noticed without Lua to compare it with.
  const apart = files.includes('test/algorithms') ? ['--exclude=test/algorithms/{lua,prelude}.test.ts'] : []
  const child = spawn(
    process.execPath,
    [join(folder, 'node_modules/vitest/vitest.mjs'), 'run', ...options, ...named, ...apart, ...files],
    {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, SLUICE_EQUALITY: process.env.SLUICE_EQUALITY ?? '20000' },
      detached: true,
    },
  )
  // The whole group: a test that never ends runs in a process of its own.
  const group = -Number(child.pid)
  const timer = setTimeout(() => process.kill(group, 'SIGKILL'), LIMIT_MS)
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  clearTimeout(timer)
  if (child.signalCode === 'SIGKILL' || out === '') return endless(child, errors)
  return firstFailure(JSON.parse(out.slice(out.indexOf('{'))), folder)
}

function endless(child, errors) {
  if (child.signalCode === 'SIGKILL') return `none: it never ended within ${LIMIT_MS / 1000} s`
  throw new Error(`The tests did not run:\n${errors}`)
}

function firstFailure({ success, numPassedTests, testResults }, folder) {
  if (success && numPassedTests > 0) return undefined
  for (const { name, message, assertionResults } of testResults) {
    const failed = assertionResults.find(({ status }) => status === 'failed')
    if (failed !== undefined) return `${relative(folder, name)}: ${failed.fullName.trim()}`
    if (message !== '') throw new Error(`${name} did not load:\n${message}`)
  }
  throw new Error(`No test ran, or something else went wrong: ${numPassedTests} passed`)
}
