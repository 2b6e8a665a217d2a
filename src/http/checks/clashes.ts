import type { HeaderConfig } from '../headers/styles.ts'
import { tools } from './tools.ts'

/** The header options with which each writer was compared. */
const compared = new WeakMap<object, WeakSet<HeaderConfig>>()

/** Warns if an earlier request limiter writes the same header as this writer in another way. It warns once for each pair. */
export function warnOfClashes(
  writer: object,
  config: HeaderConfig,
  earlier: readonly { readonly config: HeaderConfig }[],
): void {
  const known = compared.get(writer) ?? new WeakSet([config])
  compared.set(writer, known)
  for (const { config: other } of earlier) {
    if (known.has(other)) continue
    known.add(other)
    const clash = tools.clashBetween(other, config)
    if (clash !== undefined)
      tools.warn(
        'SLUICE_STYLES_CLASH',
        `Two rate limits of one request write the same header in two styles: ${clash}. Give both the same \`headers\`.`,
      )
  }
}
