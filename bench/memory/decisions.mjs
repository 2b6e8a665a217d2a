import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { figure } from '../lib/experiment.mjs'
import { ask } from '../lib/processes.mjs'
import { budget, oursIn, ratioBudget, row } from '../lib/row.mjs'
import { median, ratios, summary } from '../lib/statistics.mjs'
import { PEERS } from './subjects.mjs'

const HOT = new URL('./hot.worker.mjs', import.meta.url)
const KEYS = new URL('./keys.worker.mjs', import.meta.url)
const TIME = 'Time per decision'
const STATES = [
  { name: 'clean', polluted: false },
  { name: 'polluted', polluted: true },
]

/** What is asked of one hot key, with the budget of each: at most so many times the floor. */
const SCENARIOS = [
  { title: 'one hot key', count: 1, denied: false, atMost: 3.2 },
  { title: 'one hot key, denied', count: 1, denied: true, atMost: 3.1 },
  { title: 'one hot key, two limits', count: 2, denied: false, atMost: 5.5 },
  { title: 'one hot key, three limits', count: 3, denied: false, atMost: 6.6 },
  { title: 'one hot key, one limit and slots, released', count: 1, denied: false, slots: true, atMost: 16 },
]

/** Decisions on one hot key. */
export function hotKey({ builds, core, rounds, peerRounds, ms }) {
  const measure = async (name, job) => ({ [name]: (await ask(HOT, { ms, ...job }, { core })).ns })
  const ownSteps = STATES.flatMap(({ name: state, polluted }) =>
    SCENARIOS.flatMap(({ title, count, denied, slots = false }) =>
      builds
        .filter(({ root }) => !slots || hasSlots(root))
        .map(({ name, root }) => ({
          subject: name,
          measure: () => measure(`${title}, ${state}`, { root, count, denied, slots, polluted }),
        })),
    ),
  )
  const peerSteps = SCENARIOS.slice(0, 2).flatMap(({ title, denied }) =>
    PEERS.map((name) => ({
      subject: name,
      rounds: peerRounds,
      measure: () => measure(`${title}, clean`, { name, denied }),
    })),
  )
  const floor = { subject: 'floor', measure: () => measure('floor', { name: 'floor' }) }
  return { title: 'one hot key', rounds, steps: [floor, ...ownSteps, ...peerSteps], rows: hotRows }
}

/** Returns true for a build that has `concurrent`. */
function hasSlots(root) {
  return readFileSync(join(root, 'rules.schema.json'), 'utf8').includes('"concurrent"')
}

function hotRows({ floor, ...samples }) {
  const withFloor = (name) => ({ floor: floor.floor, ...figure(samples, name) })
  const own = SCENARIOS.flatMap(({ title, atMost }) =>
    STATES.map(({ name }) => timeRow(`${title}, ${name}`, withFloor(`${title}, ${name}`), atMost)),
  )
  const peers = SCENARIOS.slice(0, 2).map(({ title, denied }) => {
    const values = withFloor(`${title}, clean`)
    const least = denied ? { of: 'rate-limiter-flexible', over: oursIn(values), atLeast: 6 } : undefined
    return peerRow(title, values, least && ratioBudget(values, least))
  })
  return [...own, ...peers]
}

/** A row of the builds against the floor. */
function timeRow(title, { floor, before, after, sluice }, atMost) {
  const values = present({ floor, before, after, sluice })
  const budgets = ratioBudget(values, { over: 'floor', atMost })
  return row({ group: TIME, title, unit: 'ns', values, over: ['floor'], budgets })
}

/** A row of our build against the peers, and against the best of them. */
function peerRow(title, { before: _before, ...values }, budgets = []) {
  const best = summary(ratios(values[oursIn(values)], values[bestOf(values)]))
  const made = row({ group: 'Time per decision, against the peers', title, unit: 'ns', values, budgets })
  return { ...made, ratios: { 'best peer': best } }
}

function bestOf(values) {
  const measured = PEERS.filter((name) => values[name] !== undefined)
  return measured.toSorted((a, b) => median(values[a]) - median(values[b]))[0]
}

function present(values) {
  return Object.fromEntries(Object.entries(values).filter(([, samples]) => samples !== undefined))
}

/** Decisions on many keys, and the memory that a key takes. */
export function manyKeys({ builds, core, rounds, peerRounds, keys }) {
  const flags = ['--expose-gc']
  const named = (figures, state) =>
    Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${name}, ${state}`, value]))
  const measure = async (job, state) => named(await ask(KEYS, { keys, ...job }, { core, flags }), state)
  const own = STATES.flatMap(({ name: state, polluted }) =>
    builds.map(({ name, root }) => ({ subject: name, measure: () => measure({ root, polluted }, state) })),
  )
  const floor = { subject: 'floor', measure: () => measure({ name: 'floor' }, 'clean') }
  const peers = PEERS.map((name) => ({ subject: name, rounds: peerRounds, measure: () => measure({ name }, 'clean') }))
  const title = `${keys.toLocaleString('en')} keys`
  return {
    title,
    rounds: Math.ceil(0.7 * rounds),
    steps: [floor, ...own, ...peers],
    rows: (samples) => manyRows(samples, title),
  }
}

function manyRows(samples, title) {
  const floor = samples.floor
  const random = STATES.map(({ name }) =>
    timeRow(
      `random, ${title}, ${name}`,
      { ...figure(samples, `random, ${name}`), floor: floor['random, clean'] },
      1.75,
    ),
  )
  const bytes = figure(samples, 'bytes, clean')
  const atMost = budget('≤ 64 bytes', bytes[oursIn(bytes)], { atMost: 64 })
  return [
    ...random,
    peerRow(`random, ${title}`, figure(samples, 'random, clean')),
    peerRow(`first decision of ${title}`, figure(samples, 'first, clean')),
    row({ group: 'Memory per key and limit', title, unit: 'bytes', values: bytes, budgets: [atMost] }),
  ]
}
