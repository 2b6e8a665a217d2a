import { createWriteStream } from 'node:fs'
import { once } from 'node:events'
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'

const START = Date.UTC(2026, 10, 1)
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36'
const LINES_PER_SECOND = 200

/** A line of each format, as its program writes it. */
const LINES = { combined, caddy, 'pino-http': pino }

/**
 * Writes a log: a few busy addresses and many quiet ones, with some lines out of order.
 * @param {string} path
 * @param {{ format: keyof typeof LINES, lines: number, addresses: number }} options
 */
export async function writeLog(path, { format, lines, addresses }) {
  const line = LINES[format]
  const random = xoroshiro128plus(17)
  const next = () => (random.next() >>> 0) / 2 ** 32
  const file = createWriteStream(path)
  let text = ''
  for (let i = 0; i < lines; i++) {
    const second = Math.max(0, Math.floor(i / LINES_PER_SECOND) - Math.floor(next() * 3))
    text += `${line(START + second * 1000, addressOf(Math.floor(addresses * next() ** 4)), i)}\n`
    if (text.length > 2 ** 20 || i === lines - 1) {
      if (!file.write(text)) await once(file, 'drain')
      text = ''
    }
  }
  file.end()
  await once(file, 'finish')
}

function addressOf(number) {
  return `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`
}

const pathOf = (i) => `/items/${i % 1000}?page=2`

function combined(time, ip, i) {
  const [, day, month, year, clock] = /^\w+, (\d+) (\w+) (\d+) (.*) GMT$/.exec(new Date(time).toUTCString())
  return `${ip} - - [${day}/${month}/${year}:${clock} +0000] "GET ${pathOf(i)} HTTP/1.1" 200 5120 "-" "${AGENT}"`
}

function caddy(time, ip, i) {
  const request = {
    remote_ip: ip,
    remote_port: '32946',
    proto: 'HTTP/1.1',
    method: 'GET',
    host: 'example.com',
    uri: pathOf(i),
    headers: { 'User-Agent': [AGENT], Accept: ['*/*'] },
  }
  return JSON.stringify({
    level: 'info',
    ts: time / 1000,
    logger: 'http.log.access.log0',
    msg: 'handled request',
    request,
    user_id: '',
    duration: 0.000014925,
    size: 5120,
    status: 200,
    resp_headers: { Server: ['Caddy'], 'Content-Type': ['text/plain; charset=utf-8'] },
  })
}

function pino(time, ip, i) {
  const headers = { host: 'example.com', connection: 'keep-alive', accept: '*/*', 'user-agent': AGENT }
  return JSON.stringify({
    level: 30,
    time,
    pid: 8935,
    hostname: 'app-1',
    req: { id: i, method: 'GET', url: pathOf(i), headers, remoteAddress: ip, remotePort: 32826 },
    res: { statusCode: 200, headers: {} },
    responseTime: 3,
    msg: 'request completed',
  })
}
