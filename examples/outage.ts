// Run it: npm run build && npm run build:examples && node dist/examples/outage.js
// With Node 22.18 or newer also: npm run build && node examples/outage.ts
//
// Starts a Redis, sends it decisions under load, freezes it (SIGSTOP) and continues it (SIGCONT). Each quarter of a second, a line shows
// what a guarded limiter does. With `--short` it takes 4 seconds, otherwise 12.
// It needs redis-server or valkey-server on the PATH.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { styleText } from 'node:util'
import { Redis } from 'ioredis'
import { createLimiter, type Decision, guard, type Limiter, perSecond } from 'sluice'
import { redisStore } from 'sluice/redis'

const DEADLINE = 50
const CLIENTS = 32
const EVERY = 250
/** Seconds before, during and after the freeze. */
const PHASES = process.argv.includes('--short') ? ([1, 1.5, 1.5] as const) : ([3, 5, 4] as const)

/** What was decided since the last line. */
interface Tally {
  decisions: number
  denied: number
  slowest: number
  readonly modes: Set<string>
}

const COLUMNS = ['time', 'decisions/s', 'denied/s', 'slowest', 'decided by']
const colourful = process.stdout.isTTY && process.stdout.hasColors()
let tally = emptyTally()
let began = 0

function emptyTally(): Tally {
  return { decisions: 0, denied: 0, slowest: 0, modes: new Set() }
}

function styled(style: 'bold' | 'green' | 'yellow', text: string): string {
  return colourful ? styleText(style, text) : text
}

function printLine(cells: readonly string[]): void {
  console.log(cells.map((cell, i) => (i === cells.length - 1 ? `  ${cell}` : cell.padStart(12))).join(''))
}

function printEvent(text: string): void {
  console.log(styled('bold', `  ${((performance.now() - began) / 1000).toFixed(2)} s: ${text}`))
}

/** Prints what happened since the last line, and starts again. */
function report(ms: number): void {
  const { decisions, denied, slowest, modes } = tally
  tally = emptyTally()
  const perSecond = (count: number): string => Math.round((count * 1000) / ms).toLocaleString('en')
  const by = [...modes].map((mode) => styled(mode === 'Redis' ? 'green' : 'yellow', mode)).join(', ')
  const time = `${((performance.now() - began) / 1000).toFixed(2)} s`
  printLine([time, perSecond(decisions), perSecond(denied), `${slowest.toFixed(1)} ms`, by])
}

/** The server's program, if it is on the PATH. */
function command(): string | undefined {
  return ['redis-server', 'valkey-server'].find((name) => spawnSync(name, ['--version']).status === 0)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

function startServer(name: string, port: number): ChildProcess {
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const server = spawn(name, options, { stdio: 'ignore' })
  process.once('exit', () => server.kill('SIGKILL'))
  process.once('SIGINT', () => process.exit(130))
  return server
}

/** Clients that ask again and again until `isOver`. */
class Load {
  isFrozen = false
  isOver = false
  /** Milliseconds of the decisions that were made while the server was frozen. */
  readonly whileFrozen: number[] = []
  readonly #limiter: Limiter<string, Promise<Decision>>

  constructor(limiter: Limiter<string, Promise<Decision>>) {
    this.#limiter = limiter
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: CLIENTS }, (_, i) => this.#client(`user-${i}`)))
  }

  async #client(user: string): Promise<void> {
    while (!this.isOver) {
      const start = performance.now()
      this.#count(await this.#limiter.consume(user), performance.now() - start)
      await pause(1)
    }
  }

  #count({ allowed, degraded }: Decision, ms: number): void {
    if (this.isFrozen) this.whileFrozen.push(ms)
    tally.decisions++
    if (!allowed) tally.denied++
    tally.slowest = Math.max(tally.slowest, ms)
    tally.modes.add(degraded === undefined ? 'Redis' : 'this process')
  }
}

async function show(seconds: number): Promise<void> {
  for (let lines = (seconds * 1000) / EVERY; lines > 0; lines--) {
    const start = performance.now()
    await pause(EVERY)
    report(performance.now() - start)
  }
}

/** Prints the phases: before the freeze, during it, and after it. */
async function freezeUnderLoad(server: ChildProcess, load: Load): Promise<void> {
  const [before, during, after] = PHASES
  await show(before)
  printEvent('the server is frozen')
  server.kill('SIGSTOP')
  load.isFrozen = true
  await show(during)
  printEvent('the server continues')
  load.isFrozen = false
  server.kill('SIGCONT')
  await show(after)
}

function printSummary(times: readonly number[]): void {
  const sorted = times.toSorted((a, b) => a - b)
  const others = sorted.filter((ms) => ms < DEADLINE)
  const waited = sorted.length - others.length
  const median = others[Math.floor(others.length / 2)] ?? 0
  const longest = `${(sorted.at(-1) ?? 0).toFixed(1)} ms at most`
  console.log(`\nWhile the server was frozen, ${waited} decisions waited for it, ${longest}.`)
  console.log(`The other ${others.length.toLocaleString('en')} took ${median.toFixed(3)} ms (median).`)
}

async function run(name: string): Promise<void> {
  const port = await freePort()
  const server = startServer(name, port)
  const redis = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 })
  redis.on('error', () => undefined) // The server listens in a moment.
  const store = guard(redisStore(redis), {
    deadline: DEADLINE,
    onChange: ({ state, reason }) => printEvent(`the store is ${state}: ${reason}`),
  })
  await redis.ping()

  console.log(
    `${CLIENTS} clients, each limited to 100 requests per second by ${name}. The deadline is ${DEADLINE} ms.\n`,
  )
  printLine(COLUMNS)
  began = performance.now()
  const load = new Load(createLimiter({ keyer: (user: string) => user, limits: perSecond(100), store }))
  const loaded = load.run()
  await freezeUnderLoad(server, load)
  load.isOver = true
  await loaded
  await store.close()
  redis.disconnect()
  server.kill('SIGKILL')
  printSummary(load.whileFrozen)
}

const name = command()
if (name === undefined) {
  console.error('Put redis-server or valkey-server on the PATH, such as with `apt-get install redis-server`.')
  process.exitCode = 1
} else await run(name)
