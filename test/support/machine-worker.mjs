// A process, a worker of a cluster or a thread that uses a machineStore: see test/stores/machine/processes.test.ts.
import { parentPort, workerData } from 'node:worker_threads'

const { package: home, quota, options } = workerData ?? JSON.parse(process.env.SLUICE_MACHINE)
const { createLimiter, fixedWindow, guard } = await import(`${home}/src/index.js`)
const { machineStore } = await import(`${home}/src/stores/machine/index.js`)

// A port of a thread has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
const send = (message) => (parentPort === null ? process.send(message) : parentPort.postMessage(message))
const warnings = []
process.on('warning', ({ code, message }) => warnings.push({ code, message }))

let store
const tasks = {
  open() {
    store = machineStore(options)
    return store.ready()
  },
  /** Makes decisions, a few in each turn, and returns how many were admitted, and how many failed. */
  async take({ times, key = 'ann' }) {
    const limits = fixedWindow({ quota, window: '1h' })
    const limiter = createLimiter({ keyer: (each) => each, limits, store, shared: true })
    let [admitted, failed] = [0, 0]
    for (let i = 0; i < times; i += 5) {
      const taken = Array.from({ length: Math.min(5, times - i) }, () => limiter.consume(key))
      for (const { status, value } of await Promise.allSettled(taken))
        if (status === 'rejected') failed++
        else if (value.allowed) admitted++
      await new Promise(setImmediate)
    }
    return { admitted, failed }
  },
  /** Makes decisions behind a guard for so long, and returns by whom. */
  async guarded({ ms }) {
    const limits = fixedWindow({ quota, window: '1h' })
    const guarded = guard(store, { deadline: '100ms' })
    const limiter = createLimiter({ keyer: (each) => each, limits, store: guarded, shared: true })
    const by = []
    let longest = 0
    for (const end = performance.now() + ms; performance.now() < end;) {
      const since = performance.now()
      by.push((await limiter.consume('ann')).degraded ?? 'store')
      longest = Math.max(longest, performance.now() - since)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await guarded.close()
    return { by, longest }
  },
  /** Makes decisions at once, behind a guard that knows that the store is fast, and returns how many were admitted, and by whom. */
  async burst({ times, at }) {
    const limits = fixedWindow({ quota, window: '1h' })
    const limiter = createLimiter({ keyer: (each) => each, limits, store: guard(store), shared: true })
    for (let i = 0; i < 30; i++) await limiter.consume('fast')
    await new Promise((resolve) => setTimeout(resolve, at - Date.now()))
    const made = await Promise.all(Array.from({ length: times }, async () => limiter.consume('ann')))
    const local = made.filter(({ degraded }) => degraded !== undefined).length
    return { admitted: made.filter(({ allowed }) => allowed).length, local }
  },
  warnings: async () => warnings,
  close: () => store.close(),
  /** Ends the program: there is nothing left to do. */
  finish: () => void setImmediate(() => process.disconnect()),
  /** Ends the process at once, after some decisions. */
  async exit({ times }) {
    await tasks.take({ times })
    process.exit()
  },
}

async function work({ id, task, ...given }) {
  try {
    send({ id, result: await tasks[task](given) })
  } catch ({ code, message }) {
    send({ id, error: { code, message } })
  }
}
const receive = (message) => void work(message)
if (parentPort === null) process.on('message', receive)
else parentPort.on('message', receive)
send({ id: 0 })
