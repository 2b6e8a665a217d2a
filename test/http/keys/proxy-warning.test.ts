import express from 'express'
import { expect, test } from 'vitest'
import { ipKeyer, rateLimit } from '../../../adapters/express/index.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { ask, serveForTest, warningsOf } from '../../support/http.ts'
import { proxyWarner, proxyWarning } from '../../../src/http/checks/proxies.ts'
import { type ProxyHeader, proxyHeaderIn, type ProxyTrust } from '../../../src/http/keys/address.ts'

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

test('each warner emits each warning once', () => {
  const emitted: string[] = []
  const warners = [proxyWarner((code) => emitted.push(code)), proxyWarner((code) => emitted.push(code))]
  for (const warnOfProxy of warners) {
    for (let i = 0; i < 3; i++) {
      warnOfProxy(undefined, 'nobody')
      warnOfProxy('x-forwarded-for', 'some')
      warnOfProxy('x-forwarded-for', 'nobody')
      warnOfProxy(undefined, 'everybody')
    }
  }
  const both = ['SLUICE_PROXY_UNTRUSTED', 'SLUICE_PROXY_TRUSTS_ALL']
  expect(emitted).toEqual([...both, ...both])
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
