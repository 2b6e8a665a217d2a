// Nanoseconds per decision of one algorithm, or of several that have all run in this process before any is measured.
import { answer, job } from '../lib/worker.mjs'
import { algorithms } from './algorithms.mjs'
import { MOST_ON_ONE_KEY } from './limits.mjs'
import { median } from '../lib/samples.mjs'
import { spend } from './spend.mjs'
import { sluice } from './subjects.mjs'

const order = new Uint32Array(10_000)
const laps = 5
const share = { ms: job.ms / laps, most: MOST_ON_ONE_KEY / (laps + 3) }

const subjects = job.algorithms.map((name) => ({ name, ...sluice([algorithms[name][job.kind]()]) }))
for (let lap = 0; lap < 2; lap++) for (const subject of subjects) await spend(subject, ['hot'], order, share)

const taken = Object.fromEntries(job.algorithms.map((name) => [name, []]))
for (let lap = 0; lap < laps; lap++) {
  for (const subject of subjects) taken[subject.name].push(await spend(subject, ['hot'], order, share))
}
answer(Object.fromEntries(Object.entries(taken).map(([name, ns]) => [name, median(ns)])))
