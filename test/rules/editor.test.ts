// An editor completes and checks documents by the schema of the package, by the service that the language server for YAML has.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ownPackages } from '../support/own-packages.ts'

interface TextDocument {
  positionAt(offset: number): object
}

interface Packages {
  getLanguageService(options: object): {
    configure(settings: object): void
    doValidation(document: TextDocument): Promise<{ message: string; range: { start: { line: number } } }[]>
    doComplete(document: TextDocument, position: object): Promise<{ items: readonly { label: string }[] }>
  }
  readonly TextDocument: { create(uri: string, language: string, version: number, text: string): TextDocument }
}

const required = createRequire(join(await ownPackages('editor'), 'package.json'))
const { getLanguageService, TextDocument } = Object.assign(
  {},
  ...['yaml-language-server', 'vscode-languageserver-textdocument'].map((name) => required(name) as object),
) as Packages
const service = getLanguageService({
  schemaRequestService: async (uri: string) => readFileSync(new URL(uri), 'utf8'),
  workspaceContext: { resolveRelativePath: (path: string) => path },
})
service.configure({ validate: true, completion: true })

let documents = 0
const documentOf = (text: string): TextDocument =>
  TextDocument.create(`file:///rules-${++documents}.yaml`, 'yaml', 1, text)

/** Returns what the editor marks, with its line. */
async function mistakesIn(text: string): Promise<string[]> {
  const found = await service.doValidation(documentOf(text))
  return found.map(({ message, range }) => `line ${range.start.line + 1}: ${message}`)
}

/** Returns the names that the editor suggests at the place of `|`. */
async function completions(text: string): Promise<string[]> {
  const document = documentOf(text.replace('|', ''))
  const { items } = await service.doComplete(document, document.positionAt(text.indexOf('|')))
  return items.map(({ label }) => label)
}

/** The line by which the file names its schema. */
const schema = `# yaml-language-server: $schema=${new URL('../../rules.schema.json', import.meta.url).href}\n`

describe('an editor with a language server', () => {
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
    expect(await mistakesIn(text)).toEqual([])
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
    const found = await mistakesIn(text)
    expect(found).toContain('line 5: Property kye is not allowed.')
    expect(found.some((each) => each.startsWith('line 7: Incorrect type. Expected "integer"'))).toBe(true)
    expect(found.some((each) => each.includes('Missing property "name"'))).toBe(true)
  })

  it('completes the names of a policy', async () => {
    const names = await completions(`${schema}policies:\n  - name: api\n    |\n`)
    expect(names).toEqual(
      expect.arrayContaining(['match', 'key', 'limits', 'overrides', 'allow', 'shadow', 'cost', 'onOutage', 'until']),
    )
    expect(names).not.toContain('name')
  })

  it('completes the names of a limit, and the algorithms', async () => {
    const limits = `${schema}policies:\n  - name: api\n    key: ip\n    limits:\n      - `
    expect(await completions(`${limits}quota: 1\n        |\n`)).toEqual(
      expect.arrayContaining(['window', 'burst', 'algorithm']),
    )
    expect(await completions(`${limits}algorithm: |\n`)).toEqual(
      expect.arrayContaining(['gcra', 'slidingWindowLog', 'tokenBucket']),
    )
  })

  it('completes what happens while the store is gone', async () => {
    expect(await completions(`${schema}policies:\n  - name: api\n    onOutage: |\n`)).toEqual(
      expect.arrayContaining(['local', 'open', 'closed']),
    )
  })
})
