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
