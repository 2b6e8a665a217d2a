import { messageFrom, startWorker } from '../lib/processes.mjs'
import { repeater } from '../lib/undisturbed.mjs'

const WORKER = new URL('./rate.worker.mjs', import.meta.url)

/**
 * Workers of one experiment, one for each subject: fresh ones in every round, which then take turns at each number in flight. A job may have several
 * `processes`: they work at the same time, and times are those of the slowest.
 * @param {Record<string, { processes?: number }>} jobs by subject
 * @param {{ server: { pid?: number, reset: () => Promise<void>, work: () => Promise<{ calls: number, cpu: number }> } }} run
 *   `work`: what the server has done since it started; microseconds of processor time
 */
export function rateWorkers(jobs, { server, core, ms, warmUpMs, patienceMs }) {
  const workers = new Map()
  const undisturbed = repeater(patienceMs)
  return {
    async begin() {
      await server.reset()
      for (const [subject, { processes = 1, ...job }] of Object.entries(jobs)) {
        const settings = { keys: 10_000, startMs: 2 * warmUpMs, port: server.port, ...job }
        const group = Array.from({ length: processes }, () => startWorker(WORKER, settings, { core }))
        workers.set(subject, group)
        await Promise.all(group.map((worker) => messageFrom(worker)))
      }
    },
    async measure(subject, inFlight) {
      const group = workers.get(subject)
      // Several processes on one core wait for each other.
      const alone = group.length === 1 ? [group[0].pid] : []
      return undisturbed([...alone, server.pid].filter(Boolean), async () => {
        const before = await server.work()
        for (const worker of group) worker.send({ inFlight, warmUpMs, ms })
        const all = await Promise.all(group.map((worker) => messageFrom(worker)))
        const after = await server.work()
        const sum = (name) => all.reduce((total, each) => total + each[name], 0)
        const most = (name) => Math.max(...all.map((each) => each[name]))
        const decided = sum('decided')
        return {
          rate: sum('rate'),
          p50: most('p50'),
          p99: most('p99'),
          denied: most('denied'),
          node: sum('cpu') / decided,
          cpu: (sum('cpu') + after.cpu - before.cpu) / decided,
          calls: (after.calls - before.calls) / decided,
        }
      })
    },
    async end() {
      for (const worker of [...workers.values()].flat()) worker.kill('SIGKILL')
      workers.clear()
    },
  }
}
