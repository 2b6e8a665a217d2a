import express from 'express'
import { expect, test } from 'vitest'
import { rateLimit as limitFetch } from '../../../adapters/fetch/index.ts'
import { byIP, byMethod, ipKeyer, rateLimit } from '../../../adapters/express/index.ts'
import { isWholeAddress } from '../../../src/http/checks/whole-address.ts'
import { addressKeyer } from '../../../src/http/keys/address.ts'
import { createLimiter, fixedWindow, keyers, memoryStore, stack } from '../../../src/index.ts'
import { ask, serveForTest, warningsOf } from '../../support/http.ts'

test.each([
  '2001:db8::1',
  '2001:DB8:0:0:0:0:0:1',
  'fe80::1',
  '::1',
  '::',
  '2001:db8::1.2.3.4',
  'ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255',
  'login:2001:db8::1',
  '2001:db8::1:login',
  '2001:db8:1:2:3:4:5:6:7',
  '2001:DB8::1|/login',
  '2001:db8::1/login',
  '["GET","2001:db8::1"]',
  keyers(
    () => '2001:db8:1:2:3:4:5:6',
    () => 'GET',
  )(undefined) as string,
])('%s is a whole address', (key) => {
  expect(isWholeAddress(key)).toBe(true)
})

test.each([
  '',
  '127.0.0.1',
  '::ffff:127.0.0.1',
  '2001:db8::/56',
  'ann',
  'abc',
  'a:b',
  'user:1',
  '[::1]',
  '1:2:3',
  'x::1',
  'at 2026:11:22',
  'aa:bb:cc:20:ee:ff',
  'order 2001::db8::1',
  'login:2001:db8::/56',
  keyers(
    () => '2001:db8:1:200::/56',
    () => 'GET',
  )(undefined) as string,
])('%s is none', (key) => {
  expect(isWholeAddress(key)).toBe(false)
})

test('no key of ipKeyer is a whole address', () => {
  for (const bits of [32, 56, 128]) expect(isWholeAddress(addressKeyer(bits)('2001:db8::1')!)).toBe(false)
})

const limits = fixedWindow({ quota: 9, window: '1h' })

async function warningsWith(options: Parameters<typeof rateLimit>[0]): Promise<readonly string[]> {
  const app = express().set('trust proxy', 'loopback').use(rateLimit(options))
  const server = await serveForTest(app.use((_request, response) => void response.send('ok')) as never)
  return warningsOf(async () => {
    for (let i = 1; i < 4; i++) await ask(server, '/', { headers: { 'x-forwarded-for': `2001:db8::${i}` } })
  })
}

test('a keyer of any limiter in a stack causes the warning', async () => {
  const store = memoryStore()
  const first = createLimiter<express.Request>({ keyer: byIP, limits, store })
  const second = createLimiter<express.Request>({ keyer: ({ ip }) => ip, limits, store, name: 'second' })
  expect(await warningsWith({ limiter: stack(first, second) })).toEqual(['SLUICE_WHOLE_ADDRESS'])
})

test('a keyer that returns whole addresses after thousands of other keys causes the warning', async () => {
  let key = 0
  const keyer = (): string => (key < 2000 ? `${key}` : `2001:db8::${key}`)
  const handle = limitFetch({ keyer, limits })(() => new Response('ok'))
  const codes = await warningsOf(async () => {
    for (; key < 2032; key++) await handle(new Request('http://localhost/'))
  })
  expect(codes).toEqual(['SLUICE_WHOLE_ADDRESS'])
})

test.each([
  ['an address with a port that a proxy has sent', (port: number) => `203.0.113.9:${port}`, ['SLUICE_WHOLE_ADDRESS']],
  ['an address and the number of a user', () => '203.0.113.9:7', []],
])('%s', async (_, keyOf, codes) => {
  let port = 50_000
  const handle = limitFetch({ keyer: () => keyOf(port), limits })(() => new Response('ok'))
  const send = async (): Promise<unknown> =>
    handle(new Request('http://localhost/', { headers: { 'x-forwarded-for': `203.0.113.9:${++port}` } }))
  expect(await warningsOf(async () => Promise.all([send(), send()]))).toEqual(codes)
})

test('ipKeyer causes none', async () => {
  for (const ipv6Subnet of [56, 128])
    for (const keyer of [ipKeyer({ ipv6Subnet }), keyers(byMethod, ipKeyer({ ipv6Subnet }))])
      expect(await warningsWith({ keyer, limits })).toEqual([])
})
