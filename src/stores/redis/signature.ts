import type { Algorithm } from '../../algorithms/algorithm.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'

/**
 * What a state in Redis is signed with: the algorithm, and its parameters, which Lua reads from it. It is written as shortly as
 * may be, since Redis packs only small values, and is twice as fast with packed ones: numbers to the base 36, those which are no
 * whole numbers from 0 behind a `=`.
 */
export function signature({ algorithm, parameters }: CompiledLimit): string {
  const numbers = [parameters.perMs, ...algorithm.parameters.map((name) => parameters[name]!)]
  return [kindName(algorithm), ...numbers.map(written)].join(',')
}

/** An algorithm's name without what would end it. */
export function kindName({ name }: Algorithm): string {
  return encodeURIComponent(name)
}

function written(number: number): string {
  return Number.isSafeInteger(number) && number >= 0 ? number.toString(36) : `=${number}`
}

/** The algorithm's name and its parameters, `perMs` first. */
export function readSignature(text: string): { readonly name: string; readonly numbers: readonly number[] } {
  const [name, ...words] = text.split(',')
  return {
    name: decodeURIComponent(name!),
    numbers: words.map((word) => (word.startsWith('=') ? Number(word.slice(1)) : parseInt(word, 36))),
  }
}
