import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type ProxyTrust, proxyWarning, proxyWatch } from '../../src/http/proxy.ts'

test.each<[boolean, ProxyTrust, string | undefined]>([
  [true, 'nobody', 'SLUICE_PROXY_UNTRUSTED'],
  [false, 'nobody', undefined],
  [true, 'some', undefined],
  [false, 'some', undefined],
  [true, 'everybody', 'SLUICE_PROXY_TRUSTS_ALL'],
  [false, 'everybody', 'SLUICE_PROXY_TRUSTS_ALL'],
])('forwarded %s, trusting %s: %s', (forwarded, trust, code) => {
  expect(proxyWarning(forwarded, trust)?.code).toBe(code)
})

test('says what to do and where to read on', () => {
  for (const trust of ['nobody', 'everybody'] as const) {
    expect(proxyWarning(true, trust)?.message).toMatch(/trust proxy.*trustProxy.*maxIpsCount.*#behind-a-proxy/)
  }
})

test('leads to a section that there is, in the README that is published', () => {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const anchors = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, title]) => title!.toLowerCase().replaceAll(' ', '-'))
  for (const trust of ['nobody', 'everybody'] as const) {
    const [, anchor] = /README\.md#(\S+)$/.exec(proxyWarning(true, trust)!.message)!
    expect(anchors).toContain(anchor)
  }
})

test('each mistake is told once by each gate', () => {
  const told: string[] = []
  const watches = [proxyWatch((code) => told.push(code)), proxyWatch((code) => told.push(code))]
  for (const watch of watches) {
    for (let i = 0; i < 3; i++) {
      watch(false, 'nobody')
      watch(true, 'some')
      watch(true, 'nobody')
      watch(false, 'everybody')
    }
  }
  const both = ['SLUICE_PROXY_UNTRUSTED', 'SLUICE_PROXY_TRUSTS_ALL']
  expect(told).toEqual([...both, ...both])
})

test('is a process warning unless told otherwise', async () => {
  const warned = new Promise<Error & { code?: string }>((resolve) => process.once('warning', resolve))
  proxyWatch()(true, 'nobody')
  expect(await warned).toMatchObject({ name: 'SluiceWarning', code: 'SLUICE_PROXY_UNTRUSTED' })
})
