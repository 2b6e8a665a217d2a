import express from 'express'
import { expect, test } from 'vitest'
import { ipKeyer, rateLimit } from '../../../adapters/express/index.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { ask, serveForTest, warningsOf } from '../../support/http.ts'
import { checkProxies, proxyWarning } from '../../../src/http/checks/proxies.ts'
import { type ClientInfo, type ProxyHeader, proxyHeaderIn, type ProxyTrust } from '../../../src/http/keys/address.ts'

type Header = ProxyHeader | undefined

test.each<[Header, ProxyTrust, string | undefined]>([
  ['x-forwarded-for', 'nobody', 'SLUICE_PROXY_UNTRUSTED'],
  ['forwarded', 'nobody', 'SLUICE_PROXY_UNTRUSTED'],
  ['x-real-ip', 'nobody', 'SLUICE_PROXY_UNTRUSTED'],
  [undefined, 'nobody', undefined],
  ['x-forwarded-for', 'some', undefined],
  ['forwarded', 'some', 'SLUICE_PROXY_UNTRUSTED'],
  ['x-real-ip', 'some', 'SLUICE_PROXY_UNTRUSTED'],
  [undefined, 'some', undefined],
  ['x-forwarded-for', 'everybody', 'SLUICE_PROXY_TRUSTS_ALL'],
  ['forwarded', 'everybody', 'SLUICE_PROXY_TRUSTS_ALL'],
  [undefined, 'everybody', 'SLUICE_PROXY_TRUSTS_ALL'],
])('header: %s, trust: %s, warning: %s', (header, trust, code) => {
  expect(proxyWarning(header, trust)?.code).toBe(code)
})

test('prefers the header that frameworks read', () => {
  expect(proxyHeaderIn({ 'x-forwarded-for': '::1', forwarded: 'for="[::1]"' })).toBe('x-forwarded-for')
  expect(proxyHeaderIn({ forwarded: 'for="[::1]"' })).toBe('forwarded')
  expect(proxyHeaderIn({ 'x-forwarded-for': '::1', 'x-real-ip': '::1' })).toBe('x-forwarded-for')
  expect(proxyHeaderIn({ 'x-real-ip': '::1' })).toBe('x-real-ip')
  expect(proxyHeaderIn({ 'x-real-ip': '::1' }, 'x-real-ip')).toBe('x-forwarded-for')
  expect(proxyHeaderIn({})).toBeUndefined()
})

test('each app causes each warning once', async () => {
  const client: ClientInfo<{ readonly header: Header; readonly app: { readonly trust: ProxyTrust } }> = {
    address: () => undefined,
    proxyHeader: ({ header }) => header,
    trust: ({ app }) => app.trust,
    app: ({ app }) => app,
  }
  const codes = await warningsOf(() => {
    for (const trust of ['nobody', 'nobody', 'some', 'everybody'] as const) {
      const app = { trust }
      for (let i = 0; i < 3; i++)
        for (const header of [undefined, 'x-forwarded-for', 'forwarded'] as const) checkProxies(client, { header, app })
    }
  })
  const untrusted = Array<string>(5).fill('SLUICE_PROXY_UNTRUSTED')
  expect(codes).toEqual([...untrusted, 'SLUICE_PROXY_TRUSTS_ALL'])
})

test('an app with several keyers causes one warning', async () => {
  const app = express()
  for (let i = 0; i < 3; i++)
    app.use(rateLimit({ keyer: ipKeyer({ ipv6Subnet: 64 }), limits: fixedWindow({ quota: 9, window: '1h' }) }))
  const server = await serveForTest(app.use((_request, response) => void response.send('ok')))
  const codes = await warningsOf(async () => {
    for (let i = 0; i < 2; i++) await ask(server, '/', { headers: { 'x-forwarded-for': '203.0.113.9' } })
  })
  expect(codes).toEqual(['SLUICE_PROXY_UNTRUSTED'])
})
