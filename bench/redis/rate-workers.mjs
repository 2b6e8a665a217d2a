import { messageFrom, startWorker } from '../lib/processes.mjs'
import { repeater } from '../lib/undisturbed.mjs'

const WORKER = new URL('./rate.worker.mjs', import.meta.url)

/**
 * Workers of one experiment, one for each subject: fresh ones in every round, which then take turns at each number in flight.
 * @param {Record<string, object>} jobs by subject
 * @param {{ server: { pid?: number, reset: () => Promise<void>, work: () => Promise<{ calls: number, cpu: number }> } }} run
 *   `work`: what the server has done since it started; microseconds of processor time
 */
export function rateWorkers(jobs, { server, core, ms, warmUpMs, patienceMs }) {
  const workers = new Map()
  const undisturbed = repeater(patienceMs)
  return {
    async begin() {
      await server.reset()
      for (const [subject, job] of Object.entries(jobs)) {
        const worker = startWorker(WORKER, { keys: 10_000, startMs: 2 * warmUpMs, port: server.port, ...job }, { core })
        workers.set(subject, worker)
        await messageFrom(worker)
      }
    },
    async measure(subject, inFlight) {
      const worker = workers.get(subject)
      return undisturbed([worker.pid, server.pid].filter(Boolean), async () => {
        const before = await server.work()
        worker.send({ inFlight, warmUpMs, ms })
        const { decided, cpu, ...figures } = await messageFrom(worker)
        const after = await server.work()
        return {
          ...figures,
          cpu: (cpu + after.cpu - before.cpu) / decided,
          calls: (after.calls - before.calls) / decided,
        }
      })
    },
    async end() {
      for (const worker of workers.values()) worker.kill('SIGKILL')
      workers.clear()
    },
  }
}
