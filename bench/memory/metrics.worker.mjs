// Nanoseconds per decision on one hot key: without a subscriber, with one that does nothing, and with both systems of metrics.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { entry } from '../lib/entry.mjs'
import { median } from '../lib/statistics.mjs'
import { finish, job } from '../lib/worker.mjs'
import { SAME_KEY } from './keys.mjs'
import { MOST_ON_ONE_KEY, roomyLimit } from './limits.mjs'
import { timed, warmUp } from './loop.mjs'
import { ours } from './subjects.mjs'

const WARM_UP = 2
const LAPS = 7
const lap = { ms: job.ms / LAPS, most: MOST_ON_ONE_KEY / (4 * (WARM_UP + LAPS)) }

const sluice = await entry(job.root, 'sluice')
const { collect } = await entry(job.root, 'sluice/prometheus')
const { instrument } = await entry(job.root, 'sluice/opentelemetry')
const limits = Array.from({ length: job.limits }, (_, i) => roomyLimit(sluice, `limit${i}`))
const make = () => ours(sluice, limits)
await warmUp(make)
const subject = await make()

/** A registry that is never scraped. */
const registry = { registerMetric() {}, removeSingleMetric() {} }
function nothing() {}

/** A meter that is never read. A store that answers at once records no duration. */
const instrumentOf = () => ({ addCallback() {}, removeCallback() {} })
const meter = {
  createHistogram: () => ({ record() {} }),
  createObservableCounter: instrumentOf,
  createObservableUpDownCounter: instrumentOf,
  createObservableGauge: instrumentOf,
}

/** Each begins to listen, and returns a function that ends it. */
const listeners = {
  'no subscriber': () => () => {},
  'an empty subscriber': () => {
    subscribe('sluice:decision', nothing)
    return () => unsubscribe('sluice:decision', nothing)
  },
  Prometheus: () => collect(registry).close,
  OpenTelemetry: () => instrument(meter).close,
}

const laps = Object.fromEntries(Object.keys(listeners).map((name) => [name, []]))
for (let i = 0; i < WARM_UP + LAPS; i++) {
  for (const [name, listen] of Object.entries(listeners)) {
    const end = listen()
    const ns = await timed(subject, ['hot'], SAME_KEY, lap)
    end()
    if (i >= WARM_UP) laps[name].push(ns)
  }
}
finish(Object.fromEntries(Object.entries(laps).map(([name, samples]) => [name, median(samples)])))
