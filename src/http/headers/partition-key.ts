import { createHmac } from 'node:crypto'
import { serializeBareItem } from 'structured-headers'
import { SluiceError, veiled } from '../../util/errors.ts'
import { knownOptions } from '../../util/validate.ts'
import { recentCache } from '../keys/recent-cache.ts'

/** The bytes of the digest that are shown. */
const BYTES = 12
/** The size of the cache. An HMAC takes several microseconds. */
const CACHE_SIZE = 1000

/**
 * Returns a function that names the partition of a key without revealing the key: the first 12 bytes of an HMAC-SHA256, as a
 * byte sequence. A plain hash of an IPv4 address could be reversed, since there are few addresses.
 * Throws `INVALID_OPTION` for an empty secret, `UNKNOWN_OPTION`.
 *
 * @example
 * partitioner({ secret: 'test-secret' })('203.0.113.7') // ':ZcHJA4zWGVZ/1Ped:'
 */
export function partitioner(options: { readonly secret: string }): (key: string) => string {
  if (typeof options !== 'object' || options === null)
    throw wrongOption('partitionKey', 'options such as { secret }', options)
  knownOptions('partitionKey', options, ['secret'])
  const { secret } = options
  if (typeof secret !== 'string' || secret === '')
    throw wrongOption('partitionKey.secret', 'a secret text that is not empty', secret)
  return recentCache(CACHE_SIZE, (key) => {
    const digest = createHmac('sha256', secret).update(key).digest()
    return serializeBareItem(Uint8Array.from(digest.subarray(0, BYTES)))
  })
}

/** The message does not quote the secret. */
function wrongOption(option: string, expected: string, given: unknown): SluiceError {
  return new SluiceError(
    'INVALID_OPTION',
    `${option}: expected ${expected}, got ${given === '' ? "''" : veiled(given)}`,
  )
}
