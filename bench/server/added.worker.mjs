// Time per request with one limiter, in process: real requests and responses on a socket that leads nowhere, one after another
// through the whole app. Stamped before the limiter and in the handler; and as a whole, from request to finished response.
import { IncomingMessage, ServerResponse } from 'node:http'
import { answer, job } from '../lib/worker.mjs'
import { deadEnd } from './dead-end.mjs'

const { createApp } = await import(`./${job.framework}.mjs`)
let entered = 0
let between = 0
const app = await createApp(job.limiter, {
  enter: () => void (entered = performance.now()),
  leave: () => void (between += performance.now() - entered),
})

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
  for (let i = 0; i < count; i++) {
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
between = 0
const began = performance.now()
await serve(job.requests, socket)
const whole = performance.now() - began
answer({ between: (between * 1e6) / job.requests, whole: (whole * 1e6) / job.requests })
