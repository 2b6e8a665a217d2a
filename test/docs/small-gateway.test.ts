// The small gateway of docs/guides/language-models.md, in front of a model that never stops by itself.
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { transform } from 'esbuild'
import { expect, onTestFinished, test } from 'vitest'
import { readPage } from '../support/pages.ts'
import { blocksOf, root } from '../support/programs.ts'
import { until } from '../support/http.ts'

/** Starts the program of the page with another model. */
async function start(ask: (body: object, signal: AbortSignal) => Promise<Response>): Promise<string> {
  const { code } = blocksOf(readPage('docs/guides/language-models.md')).find(({ language }) => language === 'ts')!
  const own = code
    .replace(/^async function ask[^]*?^}$/m, 'const ask = globalThis.askModel')
    .replace('app.listen(3000)', "export const server = app.listen(0, '127.0.0.1')")
  expect(own).toContain('askModel')
  const folder = await mkdtemp(join(root, 'dist/small-gateway-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'gateway.mjs')
  await writeFile(file, (await transform(own, { loader: 'ts', format: 'esm' })).code)
  Object.assign(globalThis, { askModel: ask })
  const { server } = (await import(pathToFileURL(file).href)) as { readonly server: Server }
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  if (!server.listening) await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`
}

test(
  'a client that leaves stops the model, and is charged what was reserved or seen',
  { timeout: 30_000 },
  async () => {
    let written = 0
    let isStopped = false
    const url = await start(async (_body, signal) => {
      signal.addEventListener('abort', () => (isStopped = true))
      const delta = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: '限流可以' } }] })}\n\n`
      const stream = new ReadableStream<Uint8Array>({
        async pull(controller) {
          await pause(1)
          if (signal.aborted) return controller.error(signal.reason)
          written++
          controller.enqueue(new TextEncoder().encode(delta))
        },
      })
      return new Response(stream)
    })
    const send = (body: object, signal?: AbortSignal): Promise<Response> => {
      const headers = { 'x-team': 'search', 'content-type': 'application/json' }
      return fetch(url, { method: 'POST', headers, body: JSON.stringify(body), ...(signal && { signal }) })
    }
    const remaining = (response: Response): number => Number(response.headers.get('x-ratelimit-remaining-tokens'))

    const gone = new AbortController()
    const first = await send({ max_tokens: 5 }, gone.signal)
    const reserved = 100_000 - remaining(first)
    for await (const _ of first.body!) if (written > 100) break
    gone.abort()
    await until(() => isStopped, 'the end of the request to the model')
    await pause(50)
    const before = written
    await pause(50)
    expect(written).toBe(before)

    const other = new AbortController()
    const second = await send({ max_tokens: 5 }, other.signal)
    other.abort()
    const charged = 100_000 - reserved - remaining(second)
    // Each event has three tokens of Chinese text. The gateway may have read a few more than the client.
    expect(charged).toBeGreaterThanOrEqual(3 * 100)
    expect(charged).toBeGreaterThan(reserved)
  },
)

test('the model gets the most tokens of an answer under one name, and streams only what the client asks for as a stream', async () => {
  const asked: unknown[] = []
  const url = await start((body) => {
    asked.push(body)
    return Promise.resolve(new Response('data: [DONE]\n\n'))
  })
  const bodies = [{}, { max_tokens: 5 }, { max_completion_tokens: 6, stream: false }, { max_completion_tokens: null }]
  for (const body of [...bodies, { stream: true }]) {
    const headers = { 'x-team': 'ads', 'content-type': 'application/json' }
    await (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).text()
  }
  expect(asked).toEqual([
    { max_completion_tokens: 1000 },
    { max_completion_tokens: 5 },
    { max_completion_tokens: 6, stream: false },
    { max_completion_tokens: 1000 },
    { max_completion_tokens: 1000, stream: true, stream_options: { include_usage: true } },
  ])
})
