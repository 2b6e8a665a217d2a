// Writes pino-http.log, morgan-combined.log, morgan-common.log and morgan-json.log with the real packages: node node.mjs
import { createWriteStream } from 'node:fs'
import { createServer } from 'node:http'
import morgan from 'morgan'
import pino from 'pino'
import { pinoHttp } from 'pino-http'

const fields = [
  'remote-addr',
  'remote-user',
  'date',
  'method',
  'url',
  'status',
  'referrer',
  'user-agent',
  'response-time',
]
const to = (name) => ({ stream: createWriteStream(name) })
const json = (tokens, request, response) =>
  JSON.stringify(Object.fromEntries(fields.map((name) => [name, tokens[name](request, response)])))
const loggers = [
  morgan('combined', to('morgan-combined.log')),
  morgan('common', to('morgan-common.log')),
  morgan(json, to('morgan-json.log')),
]
const logger = pino(pino.destination({ dest: 'pino-http.log', sync: true }))
const log = pinoHttp({ logger })

const server = createServer((request, response) => {
  for (const each of loggers) each(request, response, () => undefined)
  log(request, response)
  request.log.info('a line of the application')
  response.end('ok')
}).listen(0, '127.0.0.1', () => void send())

async function send() {
  const home = `http://127.0.0.1:${server.address().port}`
  await fetch(`${home}/`)
  const headers = {
    referer: 'http://example.com/',
    'user-agent': 'an agent',
    authorization: `Basic ${btoa('ann:secret')}`,
  }
  await fetch(`${home}/login?next=%2Fhome`, { method: 'POST', headers })
  await fetch(`${home}/users/7`, { headers: { 'x-api-key': 'k1' } })
  server.close()
}
