import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { madeOnce } from './made-once.ts'

const execute = promisify(execFile)

/**
 * Writes the data of a new database server into a folder. The program that makes it takes seconds, so it runs once a run, and
 * the other servers get a copy.
 */
export async function newData(
  data: string,
  program: string,
  words: readonly string[],
  options: { readonly cwd: string; readonly uid?: number; readonly gid?: number },
): Promise<void> {
  const kept = join(inject('packedFolder'), program.replaceAll(/\W/g, '-'))
  await madeOnce(kept, async () => {
    await execute(program, [...words], options)
    await execute('cp', ['-a', data, kept])
  })
  if (!existsSync(data)) await execute('cp', ['-a', kept, data])
}
