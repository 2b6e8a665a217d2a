import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { setTimeout as pause } from 'node:timers/promises'
import { Histogram } from './histogram.mjs'

const WORKER = fileURLToPath(new URL('worker.mjs', import.meta.url))
/** Milliseconds that a process may take to answer, at most. */
const PATIENCE = 20_000

/** The processes that ask, and what they have reported. */
export class Fleet {
  redis = new Histogram()
  local = new Histogram()
  /** Decisions that took longer than they may, with the time for which the event loop was late meanwhile. */
  late = []
  adjusted = 0
  notAdjusted = 0
  longestLag = 0
  errors = []
  warnings = new Set()
  #members
  #ledger

  constructor(size, job, ledger) {
    this.#ledger = ledger
    this.#members = Array.from({ length: size }, () => this.#member(job))
  }

  async ready() {
    await this.#all('ready')
  }

  /** Sends a message to all, and waits for an answer of each. */
  async ask(message, answer) {
    const answers = this.#all(answer)
    this.send(message)
    return answers
  }

  send(message) {
    for (const { child } of this.#members) child.send(message)
  }

  /** Waits until each process asks Redis again. Returns when the last one did, or `undefined` if one does not for ten seconds. */
  async recovered() {
    for (let tries = 0; tries < 1000; tries++) {
      if (this.#members.every(({ state }) => state === 'healthy')) return Math.max(...this.#members.map(({ at }) => at))
      await pause(10)
    }
    return undefined
  }

  get isDegraded() {
    return this.#members.every(({ state }) => state !== 'healthy')
  }

  /** Ends all. Returns what is wrong with how they ended. */
  async stop() {
    await this.ask({ type: 'stop' }, 'over')
    const problems = await Promise.all(this.#members.map(endOf))
    return problems.filter((each) => each !== undefined)
  }

  kill() {
    for (const { child } of this.#members) child.kill('SIGKILL')
  }

  #member(job) {
    const options = { execArgv: ['--expose-gc', '--no-warnings'], stdio: ['ignore', 'inherit', 'pipe', 'ipc'] }
    const child = fork(WORKER, [JSON.stringify(job)], options)
    const member = { child, state: 'healthy', at: 0, errors: '', exit: once(child, 'exit') }
    child.stderr.on('data', (data) => (member.errors = (member.errors + data).slice(-2000)))
    child.on('message', (message) => this.#read(member, message))
    return member
  }

  #read(member, message) {
    if (message.type === 'state') Object.assign(member, { state: message.state, at: message.at })
    if (message.type === 'report') this.#note(message)
  }

  #note({ entries, redis, local, late, adjusted, notAdjusted, lag, errors, warnings }) {
    for (const entry of entries) this.#ledger.add(entry)
    this.redis.merge(redis)
    this.local.merge(local)
    this.late.push(...late)
    this.adjusted += adjusted
    this.notAdjusted += notAdjusted
    this.longestLag = Math.max(this.longestLag, lag)
    this.errors.push(...errors)
    for (const each of warnings) this.warnings.add(each)
  }

  #all(type) {
    return Promise.all(this.#members.map((member) => answerOf(member, type)))
  }
}

function answerOf(member, type) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => fail('does not answer'), PATIENCE)
    function fail(what) {
      end()
      reject(new Error(`A process ${what} (${type}).\n${member.errors}`))
    }
    function exited() {
      fail('has ended')
    }
    function read(message) {
      if (message.type !== type) return
      end()
      resolve(message)
    }
    function end() {
      clearTimeout(timer)
      member.child.off('message', read).off('exit', exited)
    }
    member.child.on('message', read).once('exit', exited)
  })
}

/** A process that is done ends by itself, as nothing of the store is left. */
async function endOf({ exit, errors }) {
  const ended = await Promise.race([exit, pause(5000, undefined, { ref: false })])
  if (ended === undefined) return 'a process does not end: a timer or a socket is left'
  const [code, signal] = ended
  return code === 0 ? undefined : `a process ended with ${signal ?? code}: ${errors}`
}
