import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { bytesOf } from '../../../src/cli/logs/source.ts'
import { commandLine } from '../../support/command-line.ts'

const cli = commandLine()

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
    const { bytes, counted } = await read(cli.file(name, content))
    expect(bytes.equals(TEXT)).toBe(true)
    expect(counted).toBe(content.length)
  })

  it.each([0, 1, 2])('of a short file are read (%d)', async (length) => {
    const { bytes } = await read(cli.file(`${length}`, TEXT.subarray(0, length)))
    expect(bytes.equals(TEXT.subarray(0, length))).toBe(true)
  })

  it('of gzip data are found when the first byte comes alone', async () => {
    execFileSync('mkfifo', ['pipe'])
    const source = cli.file('source.gz', gzipSync(TEXT))
    const writer = spawn('sh', ['-c', '{ head -c 1 "$1"; sleep 0.2; tail -c +2 "$1"; } > pipe', 'sh', source])
    const ended = once(writer, 'exit')
    expect((await read('pipe')).bytes.equals(TEXT)).toBe(true)
    expect((await ended)[0]).toBe(0)
  })
})
