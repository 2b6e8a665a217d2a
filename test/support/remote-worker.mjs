// Counts in memory for other processes over HTTP: see test/support/faults/place.ts.
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'

const [home, port] = process.argv.slice(2)
const { memoryStore } = await import(`${home}/src/index.js`)
const { serveStore } = await import(`${home}/src/extend.js`)
const answer = serveStore(memoryStore())

async function reply(request, response) {
  try {
    response.end(JSON.stringify(await answer(JSON.parse(await text(request)))))
  } catch {
    response.destroy()
  }
}

const server = createServer((request, response) => void reply(request, response))
server.listen(Number(port), '127.0.0.1', () => console.log('ready'))
