// Formats what the project's programs write, as `npm run format` does.
import { readFileSync } from 'node:fs'
import { format } from 'oxfmt'

const { ignorePatterns: _, ...style } = JSON.parse(readFileSync(new URL('../.oxfmtrc.json', import.meta.url), 'utf8'))

/** Returns a text in the format of the project. The name of its file says the language. Throws if the text cannot be parsed. */
export async function formatted(text, file) {
  const { code, errors } = await format(file, text, style)
  if (errors.length > 0) throw new Error(`${file}: ${errors.map(({ message }) => message).join(', ')}`)
  return code
}
