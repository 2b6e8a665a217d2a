// Checks what an editor shows for the options that matter most. The language server of the compiler answers, as it does in an editor.
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root } from '../support/programs.ts'

/** A file that exists only in the editor. */
const uri = pathToFileURL(join(root, 'test/docs/hovered.ts')).href
const text = `
import { createLimiter, everyone, keyers, memoryStore, perMinute, stack } from '../../src/index.ts'
import { byIP, rateLimit } from '../../adapters/express/index.ts'
createLimiter({ keyer: (user: string) => user, limits: perMinute(1), store: memoryStore() })
rateLimit({ keyer: byIP, limits: perMinute(1), store: memoryStore() })
stack({ limiters: [{ keyer: everyone, limits: perMinute(1) }], store: memoryStore() })
keyers(byIP)
`

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: { readonly items?: readonly unknown[] }
  readonly result?: unknown
}

let server: ChildProcess
let received = Buffer.alloc(0)
let lastId = 0
const waiting = new Map<number, (result: unknown) => void>()

function send(message: Message & { readonly params?: unknown }): void {
  const body = JSON.stringify({ jsonrpc: '2.0', ...message })
  server.stdin!.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
}

function ask(method: string, params: unknown): Promise<unknown> {
  const id = ++lastId
  return new Promise((resolve) => {
    waiting.set(id, resolve)
    send({ id, method, params } as never)
  })
}

function receive(chunk: Buffer): void {
  received = Buffer.concat([received, chunk])
  for (;;) {
    const start = received.indexOf('\r\n\r\n') + 4
    const length = Number(/Content-Length: (\d+)/.exec(received.toString('latin1', 0, start))?.[1])
    if (start < 4 || received.length < start + length) return
    answer(JSON.parse(received.toString('utf8', start, start + length)) as Message)
    received = received.subarray(start + length)
  }
}

function answer({ id, method, params, result }: Message): void {
  if (id === undefined) return
  if (method === undefined) waiting.get(id)!(result)
  // The server asks for the settings of the editor, which has none.
  else send({ id, result: params?.items?.map(() => null) ?? null })
}

/** Returns what the editor shows for the first `name` in the line that starts with `call`. */
async function hover(call: string, name: string): Promise<string> {
  const lines = text.split('\n')
  const line = lines.findIndex((each) => each.startsWith(`${call}(`))
  const position = { line, character: lines[line]!.indexOf(name) + 1 }
  const shown = await ask('textDocument/hover', { textDocument: { uri }, position })
  return (shown as { readonly contents: { readonly value: string } }).contents.value.replaceAll(/\s+/g, ' ')
}

beforeAll(async () => {
  server = spawn(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '--lsp', '--stdio'], {
    stdio: 'pipe',
  })
  server.stdout!.on('data', receive)
  const capabilities = { textDocument: { hover: { contentFormat: ['markdown'] } } }
  await ask('initialize', { processId: process.pid, rootUri: pathToFileURL(root).href, capabilities })
  send({ method: 'initialized', params: {} })
  const textDocument = { uri, languageId: 'typescript', version: 1, text }
  send({ method: 'textDocument/didOpen', params: { textDocument } } as never)
}, 120_000)

afterAll(() => void server.kill())

describe('an editor shows for an option', { timeout: 120_000 }, () => {
  describe.each(['createLimiter', 'rateLimit', 'stack'])('of %s', (call) => {
    it.each([
      ['keyer', 'Who is counted:', 'keyer: (user: { id: string }) => user.id'],
      ['limits', 'What is allowed:', 'limits: [perSecond(10), perMinute(100)]'],
      ['store', 'Where the counts are kept.', 'store: redisStore(client)'],
    ])('`%s`: two sentences and an example', async (name, start, example) => {
      const shown = await hover(call, name)
      const [, sentences, examples] = /``` ((?:(?!```).)*?) \*@example\* (.*)$/.exec(shown)!
      expect(sentences).toMatch(new RegExp(`^${start}`))
      expect(sentences!.match(/\.(?= |$)/g)!.length).toBeGreaterThan(1)
      expect(examples).toContain(example)
      expect(shown).not.toContain('Not with rules.')
    })
  })

  it('and for `keyers`: how to name the input', async () => {
    expect(await hover('keyers', 'keyers')).toContain('keyers<{ tenant: string; id: string }>( (user) => user.tenant,')
  })
})
