import type { RulesProblem } from '../document.ts'

/** The formats of a document as text. */
export type RulesFormat = 'json' | 'yaml'

/** The content of a text: a value that is not checked yet, or why there is none. */
export type ParsedText = { readonly value: unknown } | { readonly problems: readonly RulesProblem[] }

/** The largest text that is parsed, in bytes. YAML takes much longer to parse than JSON. */
export const LARGEST: Readonly<Record<RulesFormat, number>> = { json: 16 * 2 ** 20, yaml: 2 ** 20 }

/** Returns the format of a file by its name, `undefined` for another than `.json`, `.yaml` and `.yml`. */
export function formatOf(path: string): RulesFormat | undefined {
  const [, ending] = /\.(json|ya?ml)$/i.exec(path) ?? []
  if (ending === undefined) return undefined
  return ending.toLowerCase() === 'json' ? 'json' : 'yaml'
}

/** Parses a text in bounded time. Loads the parser of YAML only for YAML. */
export async function parseText(text: string, format: RulesFormat): Promise<ParsedText> {
  if (Buffer.byteLength(text) > LARGEST[format]) return tooLarge(format)
  if (format === 'json') return parseJson(text)
  const { parseYaml } = await import('./yaml.ts')
  return parseYaml(text)
}

/** Decodes UTF-8 and keeps every character, so that the text can be written again as it was. */
export function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

export function tooLarge(format: RulesFormat): ParsedText {
  return problem(
    `expected at most ${LARGEST[format] / 2 ** 20} MiB of ${format === 'json' ? 'JSON' : 'YAML'}, got more`,
  )
}

/** Returns a problem of the text as a whole. */
export function problem(message: string): ParsedText {
  return { problems: [{ path: '', message }] }
}

function parseJson(text: string): ParsedText {
  try {
    return { value: JSON.parse(text.replace(/^\uFEFF/, '')) as unknown }
  } catch (error) {
    return problem(`expected JSON. ${(error as Error).message}`)
  }
}
