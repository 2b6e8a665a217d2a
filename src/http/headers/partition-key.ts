import { createHmac } from 'node:crypto'
import { serializeBareItem } from 'structured-headers'
import { SluiceError, veiled } from '../../util/errors.ts'
import { knownOptions } from '../../util/validate.ts'
import { remembered } from '../keys/recent-cache.ts'

/** Bytes of the digest that are told. */
const BYTES = 12
/** An HMAC takes some µs, so those of the latest keys are kept, in each of two generations. */
const REMEMBERED = 1000

/**
 * Names the partition of a key without giving the key away: the first 12 bytes of an HMAC-SHA256, as a byte sequence. A plain
 * hash would not do, since there are few enough IPv4 addresses to try them all. Throws `INVALID_OPTION` for an empty secret,
 * `UNKNOWN_OPTION`.
 *
 * @example
 * partitioner({ secret: 'test-secret' })('203.0.113.7') // ':ZcHJA4zWGVZ/1Ped:'
 */
export function partitioner(options: { readonly secret: string }): (key: string) => string {
  if (typeof options !== 'object' || options === null)
    throw wrong('partitionKey', 'options such as { secret }', options)
  knownOptions('partitionKey', options, ['secret'])
  const { secret } = options
  if (typeof secret !== 'string' || secret === '')
    throw wrong('partitionKey.secret', 'a secret text that is not empty', secret)
  return remembered(REMEMBERED, (key) => {
    const digest = createHmac('sha256', secret).update(key).digest()
    return serializeBareItem(Uint8Array.from(digest.subarray(0, BYTES)))
  })
}

function wrong(option: string, expected: string, given: unknown): SluiceError {
  return new SluiceError(
    'INVALID_OPTION',
    `${option}: expected ${expected}, got ${given === '' ? "''" : veiled(given)}`,
  )
}
