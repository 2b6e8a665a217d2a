// What a client sends as the body of a denied request is never taken for a request, in whatever way it comes.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { connected, until } from '../support/http.ts'
import { serveApp, timesOf } from './framework.ts'
import { everyFramework, isOneOfTwo } from './frameworks.ts'

const FRAMEWORKS = ['Express 5', 'Fastify 5', 'Koa 3', 'Hono 4', 'node:http', 'fetch', 'Nest 12 on Express']
const tested = everyFramework.filter(({ name }) => FRAMEWORKS.includes(name))
const HIDDEN = 'GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n'
/** More than a server reads to its end. */
const LARGE = 1_500_000

function head(length: number, ...lines: readonly string[]): string {
  return chunked(`Content-Length: ${length}`, ...lines)
}

function chunked(...lines: readonly string[]): string {
  return ['POST / HTTP/1.1', 'Host: x', 'Content-Type: text/plain', ...lines, '', ''].join('\r\n')
}

const CHUNKS = `${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`
const FILLER = 'x'.repeat(LARGE - HIDDEN.length)

/** Parts that are written one after another. All but the first come after the answer. */
const CASES: Readonly<Record<string, readonly string[]>> = {
  'a small body in one packet': [head(HIDDEN.length) + HIDDEN],
  'a small body after the answer': [head(HIDDEN.length), HIDDEN],
  'a small body in pieces': [head(HIDDEN.length), HIDDEN.slice(0, 7), HIDDEN.slice(7)],
  'the end of a large body': [head(LARGE), FILLER + HIDDEN],
  'the beginning of a large body': [head(LARGE), HIDDEN + FILLER],
  'a large body in one packet': [head(LARGE) + HIDDEN],
  'a large body in pieces after the answer': [head(LARGE), HIDDEN, HIDDEN, HIDDEN],
  'what comes after a large body': [head(LARGE), FILLER + HIDDEN + HIDDEN],
  'chunks in one packet': [chunked('Transfer-Encoding: chunked') + CHUNKS],
  'chunks after the answer': [chunked('Transfer-Encoding: chunked'), CHUNKS],
  'what comes after chunks': [chunked('Transfer-Encoding: chunked'), CHUNKS, HIDDEN],
  'a body with both lengths': [chunked('Content-Length: 5', 'Transfer-Encoding: chunked') + CHUNKS],
  'a body with an unknown encoding': [chunked('Transfer-Encoding: xchunked') + HIDDEN],
  'two different lengths': [head(5, `Content-Length: ${HIDDEN.length}`) + HIDDEN],
  'a body that waits for a 100': [head(HIDDEN.length, 'Expect: 100-continue'), HIDDEN],
  'what comes in place of a body that waits for a 100': [head(1000, 'Expect: 100-continue'), HIDDEN],
  'a body of HTTP/1.0': [head(HIDDEN.length).replace('HTTP/1.1', 'HTTP/1.0'), HIDDEN],
  'a body whose client closes': [head(HIDDEN.length, 'Connection: close') + HIDDEN],
}

/** Returns the URLs of all requests that Node has read while `during` runs. */
async function urlsOf(during: () => Promise<void>): Promise<readonly string[]> {
  const urls: string[] = []
  const note = (message: unknown): void => void urls.push((message as { request: IncomingMessage }).request.url!)
  subscribe('http.server.request.start', note)
  try {
    await during()
  } finally {
    unsubscribe('http.server.request.start', note)
  }
  return urls
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 25))

describe.each(tested)('$name: no request is read from', (framework) => {
  test('the body of a denied request', { timeout: 60_000 }, async () => {
    const later = remoteStore(memoryStore())
    for (const store of isOneOfTwo(framework) ? [memoryStore(), later] : [later]) {
      const server = await serveApp(framework, { limits: [timesOf(0, { store })] })
      const urls = await urlsOf(async () => {
        const attempts = Object.values(CASES).map(async (parts) => {
          const socket = await connected(server)
          let text = ''
          socket.on('data', (data) => (text += String(data)))
          for (const part of parts) {
            socket.write(part)
            // A request after a body that has arrived before the answer is a request.
            await until(() => text.includes('\r\n\r\n'), 'an answer')
            await pause()
          }
          socket.destroy()
        })
        await Promise.all(attempts)
      })
      expect(urls.filter((url) => url !== '/')).toEqual([])
      expect(urls.length).toBeGreaterThan(10)
    }
  })
})
