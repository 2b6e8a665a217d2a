import type * as Fs from 'node:fs'
import type * as Url from 'node:url'
import { builtin } from '../util/builtin.ts'
import { shown, SluiceError } from '../util/errors.ts'
import type { ReadOptions } from './compile.ts'
import type { CompiledRules } from './dimensions.ts'
import { compileText, decode, formatOf, formatOfText, LARGEST, type RulesText } from './text.ts'

/**
 * Reads a text of rules from a file. Throws `INVALID_OPTION` for a name without a known format, `INVALID_RULES` for bytes that are not a text,
 * `NOT_APPLICABLE` in a runtime without files, or the error of the file.
 */
export async function readRulesFile(path: string): Promise<RulesText> {
  const fs = builtin('node:fs') as typeof Fs | undefined
  if (fs === undefined)
    throw new SluiceError('NOT_APPLICABLE', 'Rules in a file need files, and this runtime has none. Pass their text')
  const format = formatOf(path)
  if (format === undefined)
    throw new SluiceError('INVALID_OPTION', `expected a file .json, .yaml or .yml, or a URL, got ${shown(path)}`)
  const { size } = await fs.promises.stat(path)
  // A file that is too large is refused in the same way as a text that is too large.
  if (size > LARGEST[format]) return { text: ' '.repeat(LARGEST[format] + 1), format, file: path }
  const text = decode(await fs.promises.readFile(path))
  if (text === undefined) throw new SluiceError('INVALID_RULES', `expected a text in UTF-8: ${path}`)
  return { text, format, file: path }
}

/**
 * Compiles a text, or the text of a file. A file is given by a URL, or by one line that ends in `.json`, `.yaml` or `.yml`. Throws as `readRulesFile` and
 * `compileText` do.
 */
export async function compileTextOrFile(given: string | URL, options: ReadOptions): Promise<CompiledRules> {
  const text = given instanceof URL ? (builtin('node:url') as typeof Url).fileURLToPath(given) : given
  const isName = given instanceof URL || (!given.includes('\n') && formatOf(given) !== undefined)
  const read = isName ? await readRulesFile(text) : { text, format: formatOfText(text) }
  const { compiled } = await compileText(read, options)
  return compiled
}
