// One of several workers of a queue that delivers each job several times: settles and releases receipts in a random order.
import { openStore } from './worker-store.mjs'

const job = JSON.parse(process.argv[2])
const { name, limits, receipts, actual, times } = job
const { concurrent, createLimiter, fixedWindow, stack } = await import(`${job.package}/src/index.js`)
const [store, close] = await openStore({ ...job, max: 3 })
const limiter = stack(
  createLimiter({ name: `${name} jobs`, keyer: (id) => id, limits: fixedWindow(limits.tokens), store, shared: true }),
  createLimiter({ name: `${name} slots`, keyer: () => 'all', limits: concurrent(limits.slots), store, shared: true }),
)

const tasks = Array.from({ length: times }, () => receipts)
  .flat()
  .flatMap(({ text, releases }) => {
    const settle = () => limiter.settle(text, actual)
    return releases ? [settle, () => limiter.release(text)] : [settle]
  })
for (let i = tasks.length - 1; i > 0; i--) {
  const j = Math.floor(Math.random() * (i + 1))
  ;[tasks[i], tasks[j]] = [tasks[j], tasks[i]]
}
process.send('ready')
await new Promise((resolve) => process.once('message', resolve))
let done = 0
await Promise.all(
  Array.from({ length: 4 }, async () => {
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
      await task()
      process.send(++done)
    }
  }),
)
await close()
process.send('done', () => process.disconnect())
