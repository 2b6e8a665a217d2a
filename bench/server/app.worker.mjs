// One app on a free port of 127.0.0.1. It reports its processor time in microseconds whenever it is asked to.
import { createServer } from 'node:http'
import { job } from '../lib/worker.mjs'

const { createApp } = await import(`./${job.framework}.mjs`)
const server = createServer(await createApp(job))
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send(user + system)
})
