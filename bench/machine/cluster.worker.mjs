// The primary of a cluster whose workers decide at the same time. It passes requests on, and reports the sum of what they did.
import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'
import { job } from '../lib/worker.mjs'

const RATE = fileURLToPath(new URL('../redis/rate.worker.mjs', import.meta.url))
const { primary } = await import(job.subjects)

await primary(job)
cluster.setupPrimary({ exec: RATE, args: [JSON.stringify(job)] })
const workers = Array.from({ length: job.workers }, () => cluster.fork())

/** Those of the peer have a channel. */
const isOurs = (message) => message?.channel === undefined

function answers() {
  return Promise.all(
    workers.map(
      (worker) =>
        new Promise((resolve) => {
          worker.on('message', function take(message) {
            if (!isOurs(message)) return
            worker.off('message', take)
            resolve(message)
          })
        }),
    ),
  )
}

const begun = answers()
async function ask(request) {
  const answered = answers()
  for (const worker of workers) worker.send(request)
  const all = await answered
  const sum = (name) => all.reduce((total, each) => total + each[name], 0)
  const most = (name) => Math.max(...all.map((each) => each[name]))
  process.send({
    rate: sum('rate'),
    p50: most('p50'),
    p99: most('p99'),
    denied: most('denied'),
    cpu: sum('cpu'),
    decided: sum('decided'),
  })
}
process.on('message', (request) => void ask(request))
await begun
process.send('ready')
