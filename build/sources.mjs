// Whether a build is that of the current sources.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

/** The file of a build that names its sources. It is not part of the package. */
export const SOURCES = 'sources.sha256'

/** Returns a hash of everything that a build is made of, apart from its tools. */
export function sourcesHash() {
  const hash = createHash('sha256')
  for (const folder of ['adapters', 'build', 'src']) {
    const entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    const files = entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name))
    for (const file of files.toSorted()) add(hash, file)
  }
  for (const name of ['package.json', 'package-lock.json', 'tsconfig.json']) add(hash, join(root, name))
  return hash.digest('hex')
}

function add(hash, file) {
  hash.update(file.slice(root.length)).update('\0').update(readFileSync(file)).update('\0')
}
