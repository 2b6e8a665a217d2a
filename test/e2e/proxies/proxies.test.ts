// Checks docs/guides/proxies.md: its nginx configuration runs in a real nginx, and its settings in each framework behind it.
// Clients, proxies and load balancers have their own addresses in 127.0.0.0/8, so that each sees where a request comes from.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { pipeline } from 'node:stream'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { fixedWindow } from '../../../src/engine/factories.ts'
import type { Served } from '../../support/http.ts'
import { freePort, type Nginx, nginxCommand, startNginx } from './nginx.ts'
import { EDGE, serveFastify, trustingFrameworks } from './trusting.ts'

const guide = readFileSync(new URL('../../../docs/guides/proxies.md', import.meta.url), 'utf8')
const limits = fixedWindow({ quota: 2, window: '1h' })

const ANN = '127.0.0.11'
const BOB = '127.0.0.12'

beforeAll(() => void nginxCommand(), 240_000)

const running: (Served | Nginx)[] = []
afterEach(async () => {
  for (const each of running.splice(0)) await ('stop' in each ? each.stop() : each.close())
})

/** Returns the configuration in the guide under a heading. */
function configuration(heading: string): string {
  const section = guide.slice(guide.indexOf(`## ${heading}\n`))
  const block = /^```nginx\n([^]*?)^```$/m.exec(section)
  if (!guide.includes(`## ${heading}\n`) || block === null) throw new Error(`There is no nginx under "${heading}"`)
  return block[1]!
}

/** Starts the nginx of the guide in front of an app. */
async function behindNginx(heading: string, app: Served): Promise<Served> {
  const port = await freePort()
  const block = configuration(heading)
    .replace('listen 80', `listen 127.0.0.1:${port}`)
    .replace('http://127.0.0.1:3000', app.url)
    .replace('10.0.0.0/16', EDGE)
    .replace('173.245.48.0/20', EDGE)
  running.push(app, await startNginx(block, [port]))
  return { ...app, url: `http://127.0.0.1:${port}` }
}

/** Starts a proxy that adds the address of its client, as load balancers do, and the header of Cloudflare. */
async function behindEdge(next: Served): Promise<Served> {
  const port = await freePort()
  const block = `server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass ${next.url};
      proxy_bind ${EDGE};
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header CF-Connecting-IP $remote_addr;
    }
  }`
  running.push(await startNginx(block, [port]))
  return { ...next, url: `http://127.0.0.1:${port}` }
}

/** Starts a balancer that forwards connections with the PROXY protocol. */
async function behindConnections(next: Served, localAddress = EDGE): Promise<Served> {
  const { hostname, port } = new URL(next.url)
  const balancer = createServer((client) => {
    const onwards = connect({ host: hostname, port: Number(port), localAddress })
    onwards.write(`PROXY TCP4 ${client.remoteAddress} ${EDGE} ${client.remotePort} 80\r\n`)
    pipeline(client, onwards, client, () => undefined)
  }).listen(0, '127.0.0.1')
  await once(balancer, 'listening')
  const served = {
    ...next,
    url: `http://127.0.0.1:${(balancer.address() as AddressInfo).port}`,
    close: async () => void balancer.close(),
  }
  running.push(served)
  return served
}

/** Returns the status for a client at an address. */
async function from(localAddress: string, { url }: Served, headers: Record<string, string> = {}): Promise<number> {
  const request = http.request(url, { localAddress, headers, agent: false }).end()
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response.statusCode!
}

let made = 0
/** Returns headers with forged addresses, different each time. */
function spoofed(): Record<string, string> {
  const address = `203.0.113.${++made % 250}`
  return {
    'X-Forwarded-For': `${address}, ${address}`,
    'X-Real-IP': address,
    'CF-Connecting-IP': address,
    Forwarded: `for=${address}`,
  }
}

/** Checks that two clients have a quota each, and that forged headers give none of them another quota. */
async function expectToldApart(server: Served): Promise<void> {
  expect([await from(ANN, server), await from(ANN, server), await from(ANN, server)]).toEqual([200, 200, 429])
  expect([await from(ANN, server, spoofed()), await from(ANN, server, spoofed())]).toEqual([429, 429])
  expect(await from(ANN, server, { 'X-Forwarded-For': BOB })).toBe(429)
  expect([await from(BOB, server, spoofed()), await from(BOB, server, spoofed())]).toEqual([200, 200])
  expect([await from(BOB, server, spoofed()), await from(BOB, server)]).toEqual([429, 429])
}

interface Warned {
  readonly code: string
  readonly message: string
}

/** Returns the warnings that are emitted while `during` runs. They are not printed. */
async function warned(during: () => Promise<unknown>): Promise<Warned[]> {
  const warnings: Warned[] = []
  const printers = process.listeners('warning')
  process.removeAllListeners('warning')
  process.on('warning', ({ message, code = '' }: Error & { code?: string }) => void warnings.push({ code, message }))
  await during()
  await new Promise((resolve) => setImmediate(resolve))
  process.removeAllListeners('warning')
  for (const printer of printers) process.on('warning', printer)
  return warnings
}

describe.each(trustingFrameworks)('$name, set up as the guide says,', (framework) => {
  test('is the text of the guide', () => {
    for (const setting of framework.settings) expect(guide).toContain(setting)
  })

  test('distinguishes clients behind nginx', async () => {
    const server = await behindNginx('nginx', await framework.serve(limits, 1))
    expect(await warned(() => expectToldApart(server))).toEqual([])
  })

  test('distinguishes clients behind a load balancer and nginx', async () => {
    const server = await behindEdge(await behindNginx('nginx', await framework.serve(limits, 2)))
    expect(await warned(() => expectToldApart(server))).toEqual([])
  })

  test('distinguishes clients behind a balancer with the PROXY protocol, and ignores this protocol from others', async () => {
    const origin = await behindNginx('The PROXY protocol', await framework.serve(limits, 1))
    expect(await warned(async () => expectToldApart(await behindConnections(origin)))).toEqual([])
    const past = await behindConnections(origin, '127.0.0.13')
    expect([await from(ANN, past), await from(BOB, past), await from(BOB, past)]).toEqual([200, 200, 429])
  })

  test('distinguishes clients behind Cloudflare, and ignores its header from others', async () => {
    const origin = await behindNginx('Cloudflare', await framework.serve(limits, 1))
    await expectToldApart(await behindEdge(origin))
    for (const status of [200, 200, 429]) expect(await from('127.0.0.13', origin, spoofed())).toBe(status)
  })
})

test('Fastify with a number of proxies trusts no proxy, as the guide says, and warns', async () => {
  const server = await behindNginx('nginx', await serveFastify(limits, 1))
  const warnings = await warned(async () => {
    expect([await from(ANN, server), await from(BOB, server), await from(BOB, server)]).toEqual([200, 200, 429])
  })
  expect(warnings).toEqual([
    { code: 'SLUICE_PROXY_UNTRUSTED', message: expect.stringContaining('a number trusts no proxy') },
  ])
})
