import type { Algorithm } from '../../algorithms/algorithm.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'

/**
 * Returns the algorithm and the parameters that write a state, as a text that Lua reads. The text is short, because Redis packs only small values, and is
 * twice as fast with packed values. Numbers are in base 36. 0 is an empty text. A number that is negative or not whole has a `=` before it. An empty text
 * for `perMs` means 1000.
 */
export function signature({ algorithm, parameters }: CompiledLimit): string {
  const numbers = algorithm.parameters.map((name) => written(parameters[name]!))
  return [kindName(algorithm), parameters.perMs === 1000 ? '' : written(parameters.perMs), ...numbers].join(',')
}

/** Returns the name of an algorithm without the characters that would end it. */
export function kindName({ name }: Algorithm): string {
  return encodeURIComponent(name).replaceAll('!', '%21').replaceAll('~', '%7E')
}

function written(number: number): string {
  if (number === 0) return ''
  return Number.isSafeInteger(number) && number >= 0 ? number.toString(36) : `=${number}`
}

/** Reads the name of the algorithm and its parameters, `perMs` first. */
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

/** How many entries a full block has. With its length, it just fits into 4 KiB. */
export const BLOCK_ENTRIES = 248

/** The bytes of the record of a block: its number, the time of its last entry, the cost of its entries, and its size in bytes. */
export const RECORD = 22

/** The default prefix of keys in Redis. */
export const PREFIX = 'sluice:'

export function redisKey(prefix: string, limiter: string, key: string): string {
  return `${prefix}${limiterText(limiter)}:${keyText(key)}`
}

/** Returns the name of a limiter without the characters that would end it or make a hash tag. */
function limiterText(limiter: string): string {
  return limiter.replaceAll(/[%:{}]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)
}

/** Returns the limiter and the key of a key in Redis; `undefined` for a key that belongs to no limiter. `key` is in its stored form. */
export function readRedisKey(prefix: string, name: string): { limiter: string; key: string } | undefined {
  const end = name.indexOf(':', prefix.length)
  if (!name.startsWith(prefix) || end === -1) return undefined
  const limiter = name.slice(prefix.length, end).replaceAll(/%(25|3a|7b|7d)/g, (text) => decodeURIComponent(text))
  return { limiter, key: name.slice(end + 1) }
}

/** Returns a key as it is stored. A key with lone surrogates is written as JSON, because they have no UTF-8. So is a key that looks like JSON. */
function keyText(key: string): string {
  return key.startsWith('"') || !isWellFormed(key) ? JSON.stringify(key) : key
}

function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed()
}
