// Time per request, in process: real requests and responses on a socket that leads nowhere, one after another through the
// whole app. The median of the times between the start of the limiter and the handler: other programs do not change it.
import { IncomingMessage, ServerResponse } from 'node:http'
import { Duplex } from 'node:stream'
import { median } from '../lib/statistics.mjs'
import { finish, job } from '../lib/worker.mjs'

const { createApp } = await import(`./${job.framework}.mjs`)
const times = new Float64Array(Math.max(job.warmUp, job.requests))
let entered = 0
let served = 0
const app = await createApp(job, {
  enter: () => void (entered = performance.now()),
  leave: () => void (times[served] = performance.now() - entered),
})

/** A socket of a client at 127.0.0.1 that drops what is sent to it. */
function deadEnd() {
  const socket = new Duplex({
    read() {},
    write: (_chunk, _encoding, done) => done(),
    writev: (_chunks, done) => done(),
  })
  const client = { remoteAddress: '127.0.0.1', remoteFamily: 'IPv4', remotePort: 50_000, encrypted: false }
  return Object.assign(socket, client, { setTimeout() {} })
}

function request(socket) {
  const incoming = new IncomingMessage(socket)
  incoming.method = 'GET'
  incoming.url = '/'
  incoming.httpVersion = '1.1'
  incoming.httpVersionMajor = 1
  incoming.httpVersionMinor = 1
  incoming.rawHeaders = ['Host', '127.0.0.1', 'Accept', '*/*']
  incoming.push(null)
  return incoming
}

async function serve(count, socket) {
  for (served = 0; served < count; served++) {
    const incoming = request(socket)
    const response = new ServerResponse(incoming)
    response.assignSocket(socket)
    const finished = new Promise((resolve) => response.once('finish', resolve))
    app(incoming, response)
    await finished
    response.detachSocket(socket)
    if (response.statusCode !== 200) throw new Error(`Status ${response.statusCode}`)
  }
}

const socket = deadEnd()
await serve(job.warmUp, socket)
await serve(job.requests, socket)
finish({ between: median(times.subarray(0, job.requests)) * 1e6 })
