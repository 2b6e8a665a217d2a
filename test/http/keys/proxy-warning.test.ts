import { readFileSync } from 'node:fs'
import express from 'express'
import { expect, test } from 'vitest'
import { ipKeyer, rateLimit } from '../../../adapters/express/index.ts'
import { type ProxyTrust, proxyWarning, proxyWarner } from '../../../src/http/keys/proxy-warning.ts'
import { fixedWindow } from '../../../src/limits/factories.ts'
import { ask, serve, warningsOf } from '../../support/http.ts'

test.each<[boolean, ProxyTrust, string | undefined]>([
  [true, 'nobody', 'SLUICE_PROXY_UNTRUSTED'],
  [false, 'nobody', undefined],
  [true, 'some', undefined],
  [false, 'some', undefined],
  [true, 'everybody', 'SLUICE_PROXY_TRUSTS_ALL'],
  [false, 'everybody', 'SLUICE_PROXY_TRUSTS_ALL'],
])('forwarded: %s, trust: %s, warning: %s', (forwarded, trust, code) => {
  expect(proxyWarning(forwarded, trust)?.code).toBe(code)
})

test('says what to do and where to read more', () => {
  for (const trust of ['nobody', 'everybody'] as const) {
    expect(proxyWarning(true, trust)?.message).toMatch(/trust proxy.*trustProxy.*maxIpsCount.*#behind-a-proxy/)
  }
})

test('refers to an existing section of the published README', () => {
  const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8')
  const anchors = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, title]) => title!.toLowerCase().replaceAll(' ', '-'))
  for (const trust of ['nobody', 'everybody'] as const) {
    const [, anchor] = /README\.md#(\S+)$/.exec(proxyWarning(true, trust)!.message)!
    expect(anchors).toContain(anchor)
  }
})

test('each warner emits each warning once', () => {
  const emitted: string[] = []
  const warners = [proxyWarner((code) => emitted.push(code)), proxyWarner((code) => emitted.push(code))]
  for (const warnOfProxy of warners) {
    for (let i = 0; i < 3; i++) {
      warnOfProxy(false, 'nobody')
      warnOfProxy(true, 'some')
      warnOfProxy(true, 'nobody')
      warnOfProxy(false, 'everybody')
    }
  }
  const both = ['SLUICE_PROXY_UNTRUSTED', 'SLUICE_PROXY_TRUSTS_ALL']
  expect(emitted).toEqual([...both, ...both])
})

test('an app with several keyers causes one warning', async () => {
  const app = express()
  for (let i = 0; i < 3; i++)
    app.use(rateLimit({ keyer: ipKeyer({ ipv6Subnet: 64 }), limits: fixedWindow({ quota: 9, window: '1h' }) }))
  const server = await serve(app.use((_request, response) => void response.send('ok')))
  const codes = await warningsOf(async () => {
    for (let i = 0; i < 2; i++) await ask(server, '/', { headers: { 'x-forwarded-for': '203.0.113.9' } })
  })
  await server.close()
  expect(codes).toEqual(['SLUICE_PROXY_UNTRUSTED'])
})

test('is a process warning by default', async () => {
  const warned = new Promise<Error & { code?: string }>((resolve) => process.once('warning', resolve))
  proxyWarner()(true, 'nobody')
  expect(await warned).toMatchObject({ name: 'SluiceWarning', code: 'SLUICE_PROXY_UNTRUSTED' })
})
