// `npm run release -- 1.2.3` writes a version into every place that has it. It commits and publishes nothing.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const [version, day = new Date().toISOString().slice(0, 10)] = process.argv.slice(2)
const { version: current, ...manifest } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version ?? ''))
  throw new Error(`expected a version such as 1.2.3, got ${JSON.stringify(version)}`)
if (!isAfter(version, current)) throw new Error(`expected a version after ${current}, got "${version}"`)

// SECURITY.md, the page of the package on npm and the provenance of a release need an address that users can open.
for (const [field, address] of Object.entries({
  repository: manifest.repository?.url,
  homepage: manifest.homepage,
  bugs: manifest.bugs?.url,
})) {
  if (!URL.canParse(address))
    throw new Error(
      `package.json: fill in "${field}" with the public address of the project. See CONTRIBUTING.md, "Releases"`,
    )
}

// The number says what the changelog says: a change that breaks programs is never a patch.
const changes = readFileSync(join(root, 'CHANGELOG.md'), 'utf8').split(/^## /m)[1]
const kind = ['Breaking', 'Added', 'Deprecated'].find((each) => changes.includes(`\n### ${each}\n`))
const [major, minor] = current.split('.').map(Number)
const least = kind === 'Breaking' && major > 0 ? `${major + 1}.0.0` : `${major}.${minor + 1}.0`
if (kind !== undefined && isAfter(least, version.split('-')[0]))
  throw new Error(
    `CHANGELOG.md has changes under "${kind}", so the next version is ${least} or later, got "${version}"`,
  )

/** Compares the three numbers. The version itself is after its pre-releases. */
function isAfter(one, other) {
  const [a, b] = [one, other].map((each) => each.split('-')[0].split('.').map(Number))
  const i = a.findIndex((each, index) => each !== b[index])
  return i === -1 ? other.includes('-') && one !== other : a[i] > b[i]
}

/** Replaces a text in a file. Throws unless it is there as often as expected. */
function replace(file, from, to, times = 1) {
  const path = join(root, file)
  const parts = readFileSync(path, 'utf8').split(from)
  if (parts.length <= times) throw new Error(`${file}: expected ${JSON.stringify(from)}`)
  writeFileSync(
    path,
    parts.slice(0, times + 1).join(to) +
      parts
        .slice(times + 1)
        .map((part) => from + part)
        .join(''),
  )
}

replace('package.json', `"version": "${current}"`, `"version": "${version}"`)
replace('package-lock.json', `"version": "${current}"`, `"version": "${version}"`, 2)
replace('src/util/copies.ts', `VERSION = '${current}'`, `VERSION = '${version}'`)
replace('README.md', `sluice-${current}.tgz`, `sluice-${version}.tgz`)
replace(
  'docs/comparison.md',
  `| Version compared | [${current}][changelog] `,
  `| Version compared | [${version}][changelog] `,
)
replace('CHANGELOG.md', '\n## Unreleased\n', `\n## Unreleased\n\n## ${version} - ${day}\n`)
console.log(`${current} → ${version}. Now follow CONTRIBUTING.md, "Releases".`)
