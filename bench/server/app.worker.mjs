// One app behind one port of 127.0.0.1, until whoever started it goes.
import { createServer } from 'node:http'
import { job } from '../lib/worker.mjs'

const { createApp } = await import(`./${job.framework}.mjs`)
const server = createServer(await createApp(job.limiter))
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
