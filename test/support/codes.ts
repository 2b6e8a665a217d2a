import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './programs.ts'

/** The texts of all sources by their paths. */
export const sources: ReadonlyMap<string, string> = new Map(
  ['src', 'adapters'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map(
        (file) => [`${folder}/${file.replaceAll('\\', '/')}`, readFileSync(join(root, folder, file), 'utf8')] as const,
      ),
  ),
)

export const errorCodes: readonly string[] = [
  ...sources.get('src/util/errors.ts')!.matchAll(/^ {2}\| '([A-Z_]+)'$/gm),
].map(([, code]) => code!)

/** The codes of all warnings. `SLUICE_TOKEN` is a variable of the environment. */
export const warningCodes: readonly string[] = [
  ...new Set([...sources.values()].flatMap((source) => source.match(/\bSLUICE_(?!TOKEN\b)[A-Z_]+/g) ?? [])),
]
