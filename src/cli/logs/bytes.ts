import { closeSync, openSync, readSync } from 'node:fs'
import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'

const CHUNK = 524_288

/**
 * The bytes of a file, or of the standard input for `-`. Data that begins as gzip does is decompressed, whatever its name. A chunk is
 * valid until the next one is asked for.
 * @param most the bytes of a file that are read at most
 */
export async function* bytesOf(
  path: string,
  read: (bytes: number) => void,
  most: number = Infinity,
): AsyncGenerator<Buffer, void> {
  const input = path === '-' ? process.stdin : fileBytes(path, most)
  const chunks = counted(input, read)
  const first = await start(chunks)
  const whole = joined(first, chunks)
  yield* first[0] === 0x1f && first[1] === 0x8b ? decompressed(whole) : whole
}

/** Reads a file into one buffer. A stream takes twice as long, since it has a new buffer for each chunk. */
function* fileBytes(path: string, most: number): Generator<Buffer, void> {
  const file = openSync(path, 'r')
  try {
    const buffer = Buffer.allocUnsafeSlow(CHUNK)
    for (let left = most; left > 0;) {
      const size = readSync(file, buffer, 0, Math.min(CHUNK, left), null)
      if (size === 0) break
      left -= size
      yield buffer.subarray(0, size)
    }
  } finally {
    closeSync(file)
  }
}

function decompressed(chunks: AsyncGenerator<Buffer, void>): AsyncIterable<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK })
  // The error reaches the loop over the last stream.
  return pipeline(Readable.from(copied(chunks)), gunzip, () => undefined)
}

/** Copies chunks, for a stream that asks for the next one early. */
async function* copied(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  for await (const chunk of chunks) yield Buffer.from(chunk)
}

type Input = AsyncIterable<Buffer> | Iterable<Buffer>

async function* counted(input: Input, read: (bytes: number) => void): AsyncGenerator<Buffer, void> {
  for await (const chunk of input) {
    read(chunk.length)
    yield chunk
  }
}

/** Returns a copy of the first two bytes or more. */
async function start(chunks: AsyncGenerator<Buffer, void>): Promise<Buffer> {
  let found: Buffer = Buffer.alloc(0)
  while (found.length < 2) {
    const { value, done } = await chunks.next()
    if (done === true) return found
    found = Buffer.concat([found, value])
  }
  return found
}

async function* joined(first: Buffer, rest: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  if (first.length > 0) yield first
  yield* rest
}
