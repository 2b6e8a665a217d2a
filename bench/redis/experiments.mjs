import { figure } from '../lib/experiment.mjs'
import { budget, oursIn, ratioBudget, row } from '../lib/row.mjs'
import { ratios } from '../lib/statistics.mjs'
import { rateWorkers } from './rate-workers.mjs'
import { WITHOUT_FUNCTIONS } from './server.mjs'

const PEER = 'rate-limiter-flexible'
const UNION = 'RateLimiterUnion'
const TOLERANCE = 0.05
/** With so many in flight every peer takes part, and more than the rate is reported. */
const USUAL = 128
/** By the number in flight: how many times the decisions of the peer. */
const ONE_LIMIT = { 1: 0.65, 2: 0.85, 4: 0.8, 8: 0.48, 16: 0.65, 32: 1, 64: 1.6, 128: 1.8, 1000: 2.3 }
const THREE_LIMITS = { 1: 0.75, 8: 0.9, 128: 3.5, 1000: 6.8 }
const FALLBACK = [1, 8, 128]
const CACHED = [1, 8, 128]
/** By the number in flight: how many times the decisions without the cache. */
const DENIED = { 1: 20, 8: 20 }

/** One limit, against the peers. */
export function oneLimit(run) {
  const peers = { [PEER]: { name: PEER } }
  const usual = ['INCR, auto-pipelined', 'rate-limit-redis', '@fastify/rate-limit']
  for (const name of usual) peers[name] = { name }
  return inFlight('one limit', run, peers, PEER, ONE_LIMIT, usual)
}

/** Three limits that admit together or not at all, against the Union of rate-limiter-flexible, which does not take back. */
export function threeLimits(run) {
  return inFlight('three limits', run, { [UNION]: { name: UNION } }, UNION, THREE_LIMITS)
}

/** @param {string[]} usual peers that take part at the usual number in flight alone */
function inFlight(limits, run, peers, peer, factors, usual = []) {
  const jobs = { ...peers, ...ownJobs(run.builds, { limits }) }
  const { begin, measure, end } = rateWorkers(jobs, run)
  const counts = Object.keys(factors).map(Number)
  const steps = counts.flatMap((count) =>
    Object.keys(jobs)
      .filter((subject) => count === USUAL || !usual.includes(subject))
      .map((subject) => ({ subject, measure: async () => at(count, await measure(subject, count)) })),
  )
  const rows = (samples) => [
    ...counts.map((count) => rateRow(limits, samples, count, peer, factors[count])),
    ...counts.filter((count) => count in THREE_LIMITS).map((count) => processorRow(limits, samples, count, [peer])),
    ...usualRows(limits, samples, peer),
  ]
  return { title: limits, rounds: run.rounds, steps, begin, end, rows }
}

function ownJobs(builds, job) {
  return Object.fromEntries(builds.map(({ name, root }) => [name, { root, build: name, ...job }]))
}

/** The names of figures with the number in flight. */
function at(count, figures) {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${name} ${count}`, value]))
}

function titleOf(count) {
  return `${count.toLocaleString('en')} in flight`
}

function rateRow(limits, samples, count, peer, atLeast) {
  const values = figure(samples, `rate ${count}`)
  const budgets = ratioBudget(values, { over: peer, atLeast, tolerance: TOLERANCE })
  const group = `Redis, ${limits}, decisions per second`
  return row({ group, title: titleOf(count), unit: '', better: 'more', values, over: [peer], budgets })
}

/** Processor time hardly depends on what else the machine does, unlike the number of decisions per second. */
function processorRow(limits, samples, count, over = []) {
  const group = `Redis, ${limits}, processor time of Node and Redis per decision, µs`
  return row({ group, title: titleOf(count), unit: '', values: figure(samples, `cpu ${count}`), over })
}

function usualRows(limits, samples, peer) {
  const group = `Redis, ${limits}, ${titleOf(USUAL)}`
  const p99 = figure(samples, `p99 ${USUAL}`)
  const { 'INCR, auto-pipelined': _floor, ...calls } = figure(samples, `calls ${USUAL}`)
  const ours = oursIn(calls)
  const oneTrip = budget('≤ 1', calls[ours], { atMost: 1 })
  const faster = ratioBudget(p99, { over: peer, atMost: 1 })
  return [
    row({ group, title: '99th percentile', unit: 'ms', values: p99, over: [peer], budgets: faster }),
    row({ group, title: 'script calls per decision', unit: '', values: calls, budgets: [oneTrip], mayBeSlower: true }),
  ]
}

/** A log of up to 1,000 entries a key, against `gcra`; everything is admitted. */
export function logAgainstGcra(run) {
  const kinds = ['gcra', 'slidingWindowLog']
  const jobs = Object.fromEntries(
    kinds.flatMap((limits) =>
      Object.entries(ownJobs(run.builds, { limits, keys: 100 })).map(([name, job]) => [`${name} ${limits}`, job]),
    ),
  )
  const { begin, measure, end } = rateWorkers(jobs, run)
  const admitted = async (subject, kind) => {
    const { rate, denied } = await measure(subject, USUAL)
    if (denied > 0.01) throw new Error(`${subject}: ${100 * denied} % denied, but all are to be admitted`)
    return { [kind]: rate }
  }
  const steps = kinds.flatMap((kind) =>
    run.builds.map(({ name }) => ({ subject: name, measure: () => admitted(`${name} ${kind}`, kind) })),
  )
  return { title: 'slidingWindowLog', rounds: run.rounds, steps, begin, end, rows: logRows }
}

function logRows(samples) {
  const name = oursIn(samples)
  const { gcra, slidingWindowLog } = samples[name]
  const third = budget('≥ 0.3 × gcra', ratios(slidingWindowLog, gcra), { atLeast: 0.3 })
  const group = 'Redis, quota 1,000, 100 keys, all admitted, decisions per second'
  const more = { group, unit: '', better: 'more' }
  return [
    row({ ...more, title: 'gcra', values: figure(samples, 'gcra') }),
    row({ ...more, title: 'slidingWindowLog', values: figure(samples, 'slidingWindowLog'), budgets: [third] }),
  ]
}

/**
 * `denyCache` against the same store without it. At a larger number in flight the store decides many requests in one call, and the
 * cache one after another.
 */
export function behindDenyCache(run) {
  const { name, root } = run.builds.at(-1)
  const kinds = { admitted: 'one limit', denied: 'used up' }
  const jobs = Object.fromEntries(
    Object.entries(kinds).flatMap(([kind, limits]) =>
      [false, true].map((cached) => [
        `${kind} ${subjectOf(name, cached)}`,
        { root, build: name, limits, cached, keys: 100 },
      ]),
    ),
  )
  const { begin, measure, end } = rateWorkers(jobs, run)
  const steps = CACHED.flatMap((count) =>
    Object.keys(kinds).flatMap((kind) =>
      [false, true].map((cached) => {
        const subject = subjectOf(name, cached)
        return { subject, measure: async () => at(`${kind} ${count}`, await measure(`${kind} ${subject}`, count)) }
      }),
    ),
  )
  const rows = (samples) =>
    Object.keys(kinds).flatMap((kind) => CACHED.map((count) => cacheRow(kind, samples, name, count)))
  return { title: 'denyCache', rounds: run.rounds, steps, begin, end, rows }
}

function subjectOf(name, cached) {
  return cached ? name : 'without'
}

function cacheRow(kind, samples, name, count) {
  const values = figure(samples, `rate ${kind} ${count}`)
  const atLeast = kind === 'admitted' ? 0.97 : DENIED[count]
  const budgets = atLeast === undefined ? [] : ratioBudget(values, { of: name, over: 'without', atLeast })
  const group = `Redis, denyCache, all ${kind}, decisions per second`
  return row({ group, title: titleOf(count), unit: '', better: 'more', values, over: ['without'], budgets })
}

/** The builds as a user that may not call functions. */
export function fallback(run) {
  const jobs = ownJobs(run.builds, { limits: 'one limit', username: WITHOUT_FUNCTIONS })
  const { begin, measure, end } = rateWorkers(jobs, run)
  const steps = FALLBACK.flatMap((count) =>
    Object.keys(jobs).map((subject) => ({ subject, measure: async () => at(count, await measure(subject, count)) })),
  )
  const rows = (samples) =>
    FALLBACK.map((count) => {
      const values = figure(samples, `rate ${count}`)
      const budgets = ratioBudget(values, { over: 'before', atLeast: 0.75 })
      const group = 'Redis, one limit, functions forbidden (EVALSHA), decisions per second'
      return row({ group, title: titleOf(count), unit: '', better: 'more', values, budgets, mayBeSlower: true })
    })
  return { title: 'EVALSHA', rounds: run.rounds, steps, begin, end, rows }
}
