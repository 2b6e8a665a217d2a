import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }

interface Lock {
  readonly packages: Readonly<Record<string, { readonly engines?: { readonly node?: string } }>>
}

const { minVersion, satisfies } = createRequire(import.meta.url)('semver') as {
  minVersion(range: string): { readonly version: string }
  satisfies(version: string, range: string): boolean
}

it('every locked package runs on the oldest Node of the package, so that `npm ci` prints no warning', async () => {
  const oldest = minVersion(manifest.engines.node).version
  const { packages } = JSON.parse(await readFile(new URL('../../package-lock.json', import.meta.url), 'utf8')) as Lock
  const wrong = Object.entries(packages).filter(([, { engines }]) => !satisfies(oldest, engines?.node ?? '*'))
  expect(oldest).toBe('20.19.0')
  expect(Object.keys(packages).length).toBeGreaterThan(100)
  expect(wrong.map(([name]) => name)).toEqual([])
})
