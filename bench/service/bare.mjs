// The least that a server of Node does for a question: it reads the body and answers with headers of the same size.
import { createServer } from 'node:http'

const body = JSON.stringify({ allowed: true, remaining: 19_999_999, resetAfter: 86_400_000 })
const headers = {
  'RateLimit-Policy': '"api";q=1000;w=86400',
  RateLimit: '"api";r=19999999;t=87',
  'Content-Type': 'application/json',
  'Cache-Control': 'no-store',
  'Content-Length': Buffer.byteLength(body),
}
const server = createServer((request, response) => {
  request.resume().once('end', () => response.writeHead(200, headers).end(body))
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`))
