import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'

const running = new Set()

/** Starts a program. It is stopped when this process ends, at the latest. */
export function start(command, args, options) {
  const child = spawn(command, args, options)
  running.add(child)
  child.once('exit', () => running.delete(child))
  child.once('error', () => running.delete(child))
  return child
}

/** Stops every program that was started here and still runs. */
export function stopAll() {
  for (const child of running) child.kill('SIGKILL')
}

/** A command line that runs on one core, where a core is named and the system can do that. */
export function pinned(core, command, args) {
  return core === undefined || process.platform !== 'linux'
    ? [command, ...args]
    : ['taskset', '-c', String(core), command, ...args]
}

/**
 * Starts a worker: a Node process with a message channel.
 * @param {URL} file `new URL('./decide.worker.mjs', import.meta.url)`
 * @param {unknown} job given to the worker as JSON
 * @param {{ flags?: string[], core?: number }} [options]
 */
export function startWorker(file, job, { flags = [], core } = {}) {
  const node = [...flags, fileURLToPath(file), JSON.stringify(job)]
  const [command, ...args] = pinned(core, process.execPath, node)
  const { NODE_OPTIONS: _options, ...env } = process.env
  const child = start(command, args, {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...env, NODE_ENV: 'production' },
  })
  child.errors = ''
  child.stderr.on('data', (data) => (child.errors = (child.errors + data).slice(-4000)))
  return child
}

/** Waits for the next message of a worker. Throws when the worker ends first, or after so many seconds. */
export async function messageFrom(child, seconds = 120) {
  const waiting = new AbortController()
  const timer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000)
  const ended = once(child, 'close', { signal: waiting.signal }).then(([code, signal]) => {
    const worker = basename(child.spawnargs.find((each) => each.endsWith('.mjs')))
    throw new Error(`${worker} ended with ${signal ?? code}\n${child.errors}`)
  })
  try {
    const [message] = await Promise.race([once(child, 'message', { signal: waiting.signal }), ended])
    return message
  } finally {
    clearTimeout(timer)
    waiting.abort()
    ended.catch(() => {})
  }
}

/** Runs a job in a separate process and returns its result. */
export async function ask(file, job, options) {
  const child = startWorker(file, job, options)
  try {
    return await messageFrom(child)
  } finally {
    child.kill('SIGKILL')
  }
}
