// An editor completes and checks documents by the schema of the package, as the language server for YAML does it.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ownPackages } from '../support/own-packages.ts'

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: unknown
  readonly result?: unknown
}

interface Diagnostic {
  readonly message: string
  readonly range: { readonly start: { readonly line: number } }
}

/** A language server, driven as an editor does. */
class Editor {
  readonly #server: ChildProcessWithoutNullStreams
  readonly #answers = new Map<number, (result: unknown) => void>()
  readonly #diagnostics = new Map<string, (found: readonly Diagnostic[]) => void>()
  #received: Buffer = Buffer.alloc(0)
  #requests = 0
  #documents = 0

  /** Uses the packages in a folder. */
  constructor(folder: string) {
    const program = join(folder, 'node_modules/yaml-language-server/bin/yaml-language-server')
    this.#server = spawn(process.execPath, [program, '--stdio'])
    this.#server.stdout.on('data', (data: Buffer) => this.#receive(data))
  }

  async start(): Promise<void> {
    await this.request('initialize', { processId: process.pid, rootUri: null, capabilities: {} })
    this.#send({ method: 'initialized', params: {} })
  }

  async stop(): Promise<void> {
    this.#server.kill()
    if (this.#server.exitCode === null && this.#server.signalCode === null) await once(this.#server, 'exit')
  }

  request(method: string, params: unknown): Promise<unknown> {
    const id = ++this.#requests
    this.#send({ id, method, params })
    return new Promise((resolve) => this.#answers.set(id, resolve))
  }

  /** Opens a document. Returns its URI and what the server finds in it. */
  async open(text: string): Promise<{ uri: string; diagnostics: readonly Diagnostic[] }> {
    const uri = pathToFileURL(fileURLToPath(new URL(`rules-${++this.#documents}.yaml`, import.meta.url))).href
    const found = new Promise<readonly Diagnostic[]>((resolve) => this.#diagnostics.set(uri, resolve))
    this.#send({
      method: 'textDocument/didOpen',
      params: { textDocument: { uri, languageId: 'yaml', version: 1, text } },
    })
    return { uri, diagnostics: await found }
  }

  /** Returns the names that the server suggests at the place of `|`. */
  async completions(text: string): Promise<string[]> {
    const before = text.slice(0, text.indexOf('|')).split('\n')
    const { uri } = await this.open(text.replace('|', ''))
    const position = { line: before.length - 1, character: before.at(-1)!.length }
    const answer = (await this.request('textDocument/completion', { textDocument: { uri }, position })) as {
      items: readonly { label: string }[]
    }
    return answer.items.map(({ label }) => label)
  }

  #send(message: Message): void {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    this.#server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }

  #receive(data: Buffer): void {
    this.#received = Buffer.concat([this.#received, data])
    for (;;) {
      const end = this.#received.indexOf('\r\n\r\n')
      const length = Number(/Content-Length: (\d+)/i.exec(this.#received.toString('latin1', 0, Math.max(end, 0)))?.[1])
      if (end === -1 || this.#received.length < end + 4 + length) return
      this.#handle(JSON.parse(this.#received.toString('utf8', end + 4, end + 4 + length)) as Message)
      this.#received = this.#received.subarray(end + 4 + length)
    }
  }

  #handle({ id, method, params, result }: Message): void {
    if (method === undefined) this.#answers.get(id!)?.(result)
    else if (id !== undefined) this.#reply(id, method, params)
    else if (method === 'textDocument/publishDiagnostics') {
      const { uri, diagnostics } = params as { uri: string; diagnostics: readonly Diagnostic[] }
      this.#diagnostics.get(uri)?.(diagnostics)
    }
  }

  /** The server asks for settings: it gets none. */
  #reply(id: number, method: string, params: unknown): void {
    const { items = [] } = params as { items?: readonly unknown[] }
    this.#send({ id, result: method === 'workspace/configuration' ? items.map(() => null) : null })
  }
}

/** The line by which the file names its schema. */
const schema = `# yaml-language-server: $schema=${fileURLToPath(new URL('../../rules.schema.json', import.meta.url))}\n`

const folder = await ownPackages('editor')

describe('an editor with a language server', { timeout: 60_000 }, () => {
  let editor: Editor
  beforeAll(async () => {
    editor = new Editor(folder)
    await editor.start()
  }, 60_000)
  afterAll(() => editor.stop())

  it('finds no mistake in a good document', async () => {
    const text = `${schema}policies:
  - name: api
    match: { path: /api/*, attributes: { plan: [free, trial] }, header: { x-device: true } }
    key: [ip, attribute:tenant]
    limits:
      - { algorithm: slidingWindowLog, quota: 5, window: 15m, block: 1h }
    overrides:
      - { key: [192.0.2.1, acme], limits: [{ quota: 6 }], until: 2026-12-01T00:00:00Z }
`
    expect((await editor.open(text)).diagnostics).toEqual([])
  })

  it('marks an unknown name, a wrong value and a missing one', async () => {
    const text = `${schema}policies:
  - name: api
    key: ip
    kye: tenant
    limits:
      - { quota: many, window: 1m }
  - key: ip
`
    const { diagnostics } = await editor.open(text)
    const found = diagnostics.map(({ message, range }) => `line ${range.start.line + 1}: ${message}`)
    expect(found).toContain('line 5: Property kye is not allowed.')
    expect(found.some((each) => each.startsWith('line 7: Incorrect type. Expected "integer"'))).toBe(true)
    expect(found.some((each) => each.includes('Missing property "name"'))).toBe(true)
  })

  it('completes the names of a policy', async () => {
    const names = await editor.completions(`${schema}policies:\n  - name: api\n    |\n`)
    expect(names).toEqual(
      expect.arrayContaining(['match', 'key', 'limits', 'overrides', 'allow', 'shadow', 'cost', 'onOutage', 'until']),
    )
    expect(names).not.toContain('name')
  })

  it('completes the names of a limit, and the algorithms', async () => {
    const limits = `${schema}policies:\n  - name: api\n    key: ip\n    limits:\n      - `
    expect(await editor.completions(`${limits}quota: 1\n        |\n`)).toEqual(
      expect.arrayContaining(['window', 'burst', 'algorithm']),
    )
    expect(await editor.completions(`${limits}algorithm: |\n`)).toEqual(
      expect.arrayContaining(['gcra', 'slidingWindowLog', 'tokenBucket']),
    )
  })

  it('completes what happens while the store is gone', async () => {
    expect(await editor.completions(`${schema}policies:\n  - name: api\n    onOutage: |\n`)).toEqual(
      expect.arrayContaining(['local', 'open', 'closed']),
    )
  })
})
