import type { Algorithm } from '../../algorithms/algorithm.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'

/**
 * What wrote a state: the algorithm, and its parameters, which Lua reads from it. It is short, since Redis packs only small values, and
 * is twice as fast with packed ones: numbers to the base 36, an empty text for 0, and a `=` in front of those
 * which are no whole numbers from 0. An empty text for `perMs` means 1000.
 */
export function signature({ algorithm, parameters }: CompiledLimit): string {
  const numbers = algorithm.parameters.map((name) => written(parameters[name]!))
  return [kindName(algorithm), parameters.perMs === 1000 ? '' : written(parameters.perMs), ...numbers].join(',')
}

/** An algorithm's name without what would end it. */
export function kindName({ name }: Algorithm): string {
  return encodeURIComponent(name).replaceAll('!', '%21').replaceAll('~', '%7E')
}

function written(number: number): string {
  if (number === 0) return ''
  return Number.isSafeInteger(number) && number >= 0 ? number.toString(36) : `=${number}`
}

/** The algorithm's name and its parameters, `perMs` first. */
export function readSignature(text: string): { readonly name: string; readonly numbers: readonly number[] } {
  const [name, perMs, ...words] = text.split(',')
  return { name: decodeURIComponent(name!), numbers: [perMs === '' ? 1000 : read(perMs!), ...words.map(read)] }
}

function read(word: string): number {
  if (word === '') return 0
  return word.startsWith('=') ? Number(word.slice(1)) : parseInt(word, 36)
}

/** The bytes of an entry of a log: its time and its cost. */
export const ENTRY = 16

/** How many entries a full block holds: with its length, it just fits into 4 KiB. */
export const BLOCK_ENTRIES = 248

/** The bytes of a block's record: its number, the time of its last entry, their cost, and its bytes. */
export const RECORD = 22

/** The default prefix of keys in Redis. */
export const PREFIX = 'sluice:'

/** Where a limiter's key lives in Redis. */
export function redisKey(prefix: string, limiter: string, key: string): string {
  return `${prefix}${limiterText(limiter)}:${keyText(key)}`
}

/** Printable, and without the characters that would end it or make a hash tag. */
function limiterText(limiter: string): string {
  return limiter.replaceAll(/[%:{}]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)
}

/** The limiter and the key of a name in Redis, or `undefined` for a name that no limiter has. The key is as it is stored. */
export function readRedisKey(prefix: string, name: string): { limiter: string; key: string } | undefined {
  const end = name.indexOf(':', prefix.length)
  if (!name.startsWith(prefix) || end === -1) return undefined
  const limiter = name.slice(prefix.length, end).replaceAll(/%(25|3a|7b|7d)/g, (text) => decodeURIComponent(text))
  return { limiter, key: name.slice(end + 1) }
}

/** Lone surrogates have no UTF-8: such a key is written as JSON, and so is one that could be taken for it. */
export function keyText(key: string): string {
  return key.startsWith('"') || !isWellFormed(key) ? JSON.stringify(key) : key
}

function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed()
}
