import { createReadStream } from 'node:fs'
import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'

const CHUNK = 262_144

/** The bytes of a file, or of the standard input for `-`. Data that begins as gzip does is decompressed, whatever its name. */
export async function* bytesOf(path: string, read: (bytes: number) => void): AsyncGenerator<Buffer, void> {
  const input = path === '-' ? process.stdin : createReadStream(path, { highWaterMark: CHUNK })
  const chunks = counted(input, read)
  const first = await start(chunks)
  const whole = joined(first, chunks)
  yield* first[0] === 0x1f && first[1] === 0x8b ? decompressed(whole) : whole
}

function decompressed(chunks: AsyncGenerator<Buffer, void>): AsyncIterable<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK })
  // The error reaches the loop over the last stream.
  return pipeline(Readable.from(chunks), gunzip, () => undefined)
}

async function* counted(input: AsyncIterable<Buffer>, read: (bytes: number) => void): AsyncGenerator<Buffer, void> {
  for await (const chunk of input) {
    read(chunk.length)
    yield chunk
  }
}

/** Returns the first two bytes or more. */
async function start(chunks: AsyncGenerator<Buffer, void>): Promise<Buffer> {
  let found: Buffer = Buffer.alloc(0)
  while (found.length < 2) {
    const { value, done } = await chunks.next()
    if (done === true) return found
    found = found.length === 0 ? value : Buffer.concat([found, value])
  }
  return found
}

async function* joined(first: Buffer, rest: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  if (first.length > 0) yield first
  yield* rest
}
