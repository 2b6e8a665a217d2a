import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bytesOf } from '../../../src/cli/logs/source.ts'

let home: string
beforeAll(() => void (home = mkdtempSync(join(tmpdir(), 'sluice-bytes-'))))
afterAll(() => rmSync(home, { recursive: true, force: true }))

/** Three megabytes that compress to half, so that they are several chunks in each form. */
const TEXT = Buffer.from(
  Array.from({ length: 24_000 }, (_, i) => createHash('sha512').update(`${i}`).digest('hex')).join('\n'),
)

/** Returns what is read, and how many bytes were counted. */
async function read(path: string): Promise<{ bytes: Buffer; counted: number }> {
  const chunks: Buffer[] = []
  let counted = 0
  // A chunk is valid until the next one is asked for.
  for await (const chunk of bytesOf(path, (size) => void (counted += size))) chunks.push(Buffer.from(chunk))
  return { bytes: Buffer.concat(chunks), counted }
}

describe('the bytes of a log', () => {
  it.each([
    ['plain', TEXT],
    ['gzip', gzipSync(TEXT)],
    [
      'gzip, several members',
      Buffer.concat([gzipSync(TEXT.subarray(0, 1_000_001)), gzipSync(TEXT.subarray(1_000_001))]),
    ],
  ])('are the same in every form (%s)', async (name, content) => {
    const path = join(home, name)
    writeFileSync(path, content)
    const { bytes, counted } = await read(path)
    expect(bytes.equals(TEXT)).toBe(true)
    expect(counted).toBe(content.length)
  })

  it.each([0, 1, 2])('of a short file are read (%d)', async (length) => {
    const path = join(home, `${length}`)
    writeFileSync(path, TEXT.subarray(0, length))
    expect((await read(path)).bytes.equals(TEXT.subarray(0, length))).toBe(true)
  })

  it('of gzip data are found when the first byte comes alone', async () => {
    const [path, source] = [join(home, 'pipe'), join(home, 'source.gz')]
    execFileSync('mkfifo', [path])
    writeFileSync(source, gzipSync(TEXT))
    const writer = spawn('sh', ['-c', '{ head -c 1 "$1"; sleep 0.2; tail -c +2 "$1"; } > "$2"', 'sh', source, path])
    const ended = once(writer, 'exit')
    expect((await read(path)).bytes.equals(TEXT)).toBe(true)
    expect((await ended)[0]).toBe(0)
  })
})
