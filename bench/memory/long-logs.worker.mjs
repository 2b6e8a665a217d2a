import { entry } from '../lib/entry.mjs'
import { timeLongLogs } from '../lib/long-logs.mjs'
import { finish, job } from '../lib/worker.mjs'

const { memoryStore } = await entry(job.root, 'sluice')

function time(action) {
  const began = performance.now()
  action()
  return (performance.now() - began) * 1000
}

const how = { root: job.root, makeStore: (clock) => memoryStore({ clock }), time, refill: (log) => log.fill() }
// The code is compiled first.
for (let i = 0; i < 20; i++) await timeLongLogs(how, [1000])
finish(await timeLongLogs(how))
