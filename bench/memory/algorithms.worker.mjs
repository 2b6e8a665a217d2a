// Nanoseconds per decision of every algorithm on one hot key, after all of them have run in this process.
import { entry } from '../lib/entry.mjs'
import { median } from '../lib/statistics.mjs'
import { finish, job } from '../lib/worker.mjs'
import { SAME_KEY } from './keys.mjs'
import { algorithmsOf, MOST_ON_ONE_KEY } from './limits.mjs'
import { timed } from './loop.mjs'
import { pollute } from './pollute.mjs'
import { ours } from './subjects.mjs'

const WARM_UP = 2
const LAPS = 5
const lap = { ms: job.ms / LAPS, most: MOST_ON_ONE_KEY / (WARM_UP + LAPS + 1) }

const sluice = await entry(job.root, 'sluice')
pollute(sluice)
const subjects = algorithmsOf(sluice).flatMap(([name, kinds]) =>
  Object.entries(kinds).map(([kind, make]) => ({
    name: `${name}, ${kind}`,
    limiter: ours(sluice, [make(sluice)]),
    laps: [],
  })),
)
for (let i = 0; i < WARM_UP + LAPS; i++) {
  for (const subject of subjects) {
    const ns = await timed(subject.limiter, ['hot'], SAME_KEY, lap)
    if (i >= WARM_UP) subject.laps.push(ns)
  }
}
finish(Object.fromEntries(subjects.map(({ name, laps }) => [name, median(laps)])))
