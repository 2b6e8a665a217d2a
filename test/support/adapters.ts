import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './programs.ts'

export const adapters: readonly string[] = readdirSync(join(root, 'adapters'), { withFileTypes: true })
  .flatMap((each) => (each.isDirectory() ? [each.name] : []))
  .toSorted()

export async function modulesOfAdapters(): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>>> {
  const load = async (name: string): Promise<[string, Record<string, unknown>]> => [
    name,
    (await import(`../../adapters/${name}/index.ts`)) as Record<string, unknown>,
  ]
  return Object.fromEntries(await Promise.all(adapters.map(load)))
}
