// One of several processes whose clients wait for one slot. For each message it runs a round, and sends when each request began and ended to wait.
import { openStore } from './worker-store.mjs'

const job = JSON.parse(process.argv[2])
const { createLimiter, concurrent } = await import(`${job.package}/src/index.js`)
const [store, close] = await openStore(job)
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time))
/** Milliseconds of the clock that all processes of a machine share. */
const now = () => Number(process.hrtime.bigint()) / 1e6

async function runRound({ name, clients, work, ms }) {
  const limiter = createLimiter({ name, keyer: () => 'key', limits: concurrent(1), store })
  const waits = []
  const end = now() + ms
  const client = async () => {
    while (now() < end) {
      const began = now()
      const decision = await limiter.wait({})
      waits.push([began, now()])
      await pause(work)
      await limiter.release(decision)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  process.send(waits)
}

await createLimiter({ name: 'first', keyer: () => 'key', limits: concurrent(1), store }).peek({})
process.on('message', (round) => void runRound(round))
process.once('disconnect', () => void close())
process.send('ready')
