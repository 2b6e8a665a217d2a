import { LARGEST } from './text.ts'

/** Returns the line of a problem's path in a text of JSON or YAML, `undefined` if it is not known. */
export async function linesIn(text: string): Promise<(path: string) => number | undefined> {
  if (text.length > LARGEST.yaml) return () => undefined
  const [{ LineCounter }, { composed, excessOf, lineAt }] = await Promise.all([import('yaml'), import('./yaml.ts')])
  if (excessOf(text) !== undefined) return () => undefined
  const lines = new LineCounter()
  // JSON is YAML, too.
  const document = composed(text, lines)
  return (path) => lineAt(document, lines, partsOf(path))
}

/** Splits `policies[2].match["a b"]` into its names and numbers. */
function partsOf(path: string): (string | number)[] {
  const parts = path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g)
  return Array.from(parts, ([, index, quoted, name]) => {
    if (index !== undefined) return Number(index)
    return quoted === undefined ? name! : (JSON.parse(quoted) as string)
  })
}
