import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run.ts'
import { clfLine } from '../support/logs.ts'

let home: string
beforeAll(() => void (home = mkdtempSync(join(tmpdir(), 'sluice-run-'))))
afterAll(() => rmSync(home, { recursive: true, force: true }))

/** Runs a command in this process. */
async function ran(args: readonly string[], input = ''): Promise<{ code: number; out: string; error: string }> {
  let [out, error] = ['', '']
  const code = await run(args, {
    stdin: (async function* () {
      yield Buffer.from(input)
    })(),
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (error += text) },
  })
  return { code, out, error }
}

describe('run', () => {
  it('returns 0 and prints what a command prints', async () => {
    const { code, out, error } = await ran(['migrate', 'postgres'])
    expect([code, error]).toEqual([0, ''])
    expect(out).toMatch(/^CREATE .*TABLE/)
  })

  it('returns 2 for a call that cannot be understood, and prints the reason', async () => {
    expect(await ran(['inspct'])).toMatchObject({
      code: 2,
      out: '',
      error: expect.stringMatching(/^sluice: .*Did you mean "inspect"/),
    })
    expect((await ran(['top', '--nonsense'])).code).toBe(2)
  })

  it('returns 1 for a failure, without the password of a URL', async () => {
    const { code, out, error } = await ran(['inspect', 'redis://user:secret@127.0.0.1:1', 'api', 'a'])
    expect([code, out]).toEqual([1, ''])
    expect(error).toContain('redis://user:***@127.0.0.1:1')
    expect(error).not.toContain('secret')
  })

  it('reads a log from the standard input that it is given', async () => {
    const path = join(home, 'decisions.jsonl')
    const lines = ['192.0.2.1', '192.0.2.2'].map((ip) => `${clfLine(Date.parse('2026-11-22T11:00:00Z'), ip, '/')}\n`)
    const words = ['replay', '-', '--limit', 'gcra 1/1m', '--json', '--decisions', path]
    const { code, out, error } = await ran(words, lines.join(''))
    expect([code, error]).toEqual([0, ''])
    expect(JSON.parse(out)).toMatchObject({ decisions: { requests: 2, admitted: 2 } })
    expect(readFileSync(path, 'utf8').trimEnd().split('\n')).toHaveLength(2)
    expect(JSON.parse((await ran(['suggest', '-', '--json'], lines.join(''))).out)).toMatchObject({ keys: 2 })
  })
})
