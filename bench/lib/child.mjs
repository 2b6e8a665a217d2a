import { spawn } from 'node:child_process'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'

const running = new Set()

/** Starts a program; it is stopped when this process is, at the latest. */
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

/**
 * Starts a Node process that answers over a channel; pinned to a core where one is named and Linux can.
 * @param {string} file beside the caller: `new URL('./time.worker.mjs', import.meta.url)`
 * @param {unknown} job handed to it as JSON
 * @param {{ flags?: string[], core?: number }} [how]
 */
export function startNode(file, job, { flags = [], core } = {}) {
  const node = [...flags, fileURLToPath(file), JSON.stringify(job)]
  const [command, ...args] = pinned(core, process.execPath, node)
  const { NODE_OPTIONS: _options, ...env } = process.env
  return start(command, args, {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...env, NODE_ENV: 'production' },
  })
}

/** A command line, held on one core. */
export function pinned(core, command, args) {
  return core === undefined || process.platform !== 'linux'
    ? [command, ...args]
    : ['taskset', '-c', String(core), command, ...args]
}

/**
 * Lets a worker do a job in a process of its own and gives its answer. Throws when it gives none in time.
 * @param {{ flags?: string[], core?: number, seconds?: number }} [how]
 */
export function ask(file, job, { seconds = 180, ...how } = {}) {
  const child = startNode(file, job, how)
  return new Promise((resolve, reject) => {
    let told = ''
    child.stderr.on('data', (data) => (told = (told + data).slice(-4000)))
    const timer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000)
    child.once('error', reject)
    child.once('message', resolve)
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      const how = `${basename(file.pathname)} ended with ${signal ?? code} and no answer to ${JSON.stringify(job)}`
      reject(new Error(`${how}\n${told}`))
    })
  })
}
