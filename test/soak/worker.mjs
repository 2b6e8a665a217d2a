// One of the processes of the soak. It asks its limiters without pause, and reports what they have admitted and how long they took.
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Redis } from 'ioredis'
import { Histogram } from './histogram.mjs'
import { Lag } from './lag.mjs'
import { DEADLINE, GENERATION, QUOTAS, SHARE, SPECS } from './limiters.mjs'

const { home, port } = JSON.parse(process.argv[2])
const sluice = await import(pathToFileURL(`${home}/src/index.js`).href)
const { redisStore } = await import(pathToFileURL(`${home}/src/rules/redis/index.js`).href)

const LOOPS = 16
const KEYS = 8
const RATE_KEYS = 2
const REPORT_EVERY = 200
/** Milliseconds after the deadline that a decision may take. */
const SLACK = 10

const redis = new Redis(port, '127.0.0.1', { retryStrategy: () => 100 })
redis.on('error', () => undefined)
const onChange = ({ state }) => process.send({ type: 'state', state, at: Date.now() })
const store = sluice.guard(redisStore(redis), { deadline: DEADLINE, localShare: SHARE, maxKeys: 1000, onChange })

let quota = QUOTAS[0]
const changing = new Map(
  QUOTAS.map((each) => [each, SPECS.find(({ kind }) => kind === 'changing').limits(sluice, each)]),
)
const subjects = SPECS.map((spec) => ({ name: spec.name, kind: spec.kind, limiter: limiterOf(spec) }))
const warnings = new Set()
process.on('warning', ({ code, name, message }) => warnings.add(code ?? `${name}: ${message}`))

let isOver = false
let isResting = false
let isHolding = false
/** Decisions, refunds and settlements that are not done. */
let pending = 0
let pendingChanging = 0
let report = emptyReport()

function limiterOf({ name, kind, limits }) {
  const own = kind === 'changing' ? () => changing.get(quota) : limits(sluice)
  return sluice.createLimiter({ name, keyer: (key) => key, limits: own, store })
}

function emptyReport() {
  return {
    entries: new Map(),
    redis: new Histogram(),
    local: new Histogram(),
    slow: [],
    adjusted: 0,
    notAdjusted: 0,
    errors: [],
  }
}

function random(below) {
  return Math.floor(Math.random() * below)
}

async function load() {
  while (!isOver) {
    if (!isResting) await ask(subjects[random(subjects.length)])
    await pause(1 + random(8))
  }
}

async function ask(subject) {
  const isChanging = subject.kind === 'changing'
  if (isChanging && isHolding) return
  pending++
  if (isChanging) pendingChanging++
  try {
    await decide(subject)
  } catch (error) {
    if (report.errors.length < 5) report.errors.push(`${error.code}: ${error.message}`)
  } finally {
    pending--
    if (isChanging) pendingChanging--
  }
}

async function decide({ name, kind, limiter }) {
  const key = kind === 'rate' ? `r${random(RATE_KEYS)}` : `${Math.floor(Date.now() / GENERATION)}-${random(KEYS)}`
  const cost = 1 + random(3)
  const [asked, start] = [Date.now(), performance.now()]
  const decision = await limiter.consume(key, { cost })
  time(start, performance.now(), decision.degraded)
  if (!decision.allowed) return
  const entry = entryOf(name, key, decision.degraded)
  entry.admitted += cost
  if (kind === 'rate') entry.events.push([asked, Date.now(), cost])
  // A refund converts a state to the quota of its charge, so the limiter whose quota changes has none.
  if (kind === 'fixed') await adjust(limiter, decision, entry, cost)
}

function time(start, end, degraded) {
  report[degraded === undefined ? 'redis' : 'local'].add(end - start)
  if (end - start > DEADLINE + SLACK) report.slow.push([start, end])
}

function entryOf(limiter, key, degraded) {
  const source = degraded === undefined ? 'redis' : `process ${process.pid}`
  const id = JSON.stringify([limiter, key, source])
  const entry = report.entries.get(id) ?? { limiter, key, source, admitted: 0, returned: 0, events: [] }
  report.entries.set(id, entry)
  return entry
}

/** Refunds or settles some decisions at once, and some a little later. */
async function adjust(limiter, decision, entry, cost) {
  const kind = random(10)
  if (kind > 3) return
  const actual = kind < 2 ? 0 : random(2 * cost + 1)
  // It counts before it is made. If it fails, it may have been made.
  entry.returned += Math.max(0, cost - actual)
  const work = () => (kind < 2 ? limiter.refund(decision) : limiter.settle(decision, actual))
  if (kind % 2 === 0) await adjusted(work)
  else void later(work)
}

async function later(work) {
  pending++
  await pause(random(400))
  await adjusted(work)
  pending--
}

async function adjusted(work) {
  try {
    await work()
    report.adjusted++
  } catch (error) {
    if (error.code === 'STORE_FAILED') report.notAdjusted++
    else report.errors.push(`${error.code}: ${error.message}`)
  }
}

function send() {
  const { entries, slow, ...others } = report
  report = emptyReport()
  const isKnown = ([, end]) => end < lag.lookedAt
  report.slow.push(...slow.filter((each) => !isKnown(each)))
  const late = slow.filter(isKnown).map(([start, end]) => ({ ms: end - start, lag: lag.during(start, end) }))
  process.send({
    type: 'report',
    ...others,
    entries: [...entries.values()],
    late,
    lag: lag.longest,
    warnings: [...warnings],
  })
}

async function until(isDone) {
  while (!isDone()) await pause(5)
}

/** Stops asking, and reports the bytes of the heap that are in use. */
async function rest() {
  isResting = true
  await until(() => pending === 0)
  send()
  await pause(20)
  globalThis.gc()
  globalThis.gc()
  process.send({ type: 'heap', bytes: process.memoryUsage().heapUsed })
  isResting = false
}

/** Stops asking the limiter whose quota changes. */
async function hold() {
  isHolding = true
  await until(() => pendingChanging === 0)
  process.send({ type: 'held' })
}

function change(next) {
  quota = next
  isHolding = false
}

async function stop() {
  isOver = true
  await loaded
  await until(() => pending === 0)
  clearInterval(reports)
  const stopped = performance.now()
  await until(() => lag.lookedAt > stopped)
  send()
  lag.stop()
  await store.close()
  redis.disconnect()
  // Nothing else may keep this process.
  process.send({ type: 'over' }, () => process.disconnect())
}

const commands = { rest, hold, change: ({ quota }) => change(quota), stop }
process.on('message', (message) => void commands[message.type](message))
await redis.ping()
const lag = new Lag()
const loaded = Promise.all(Array.from({ length: LOOPS }, load))
const reports = setInterval(send, REPORT_EVERY)
process.send({ type: 'ready' })
