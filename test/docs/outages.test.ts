// Checks that docs/internals/outages.md shows what `npm run faults` has recorded.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { pageOf, readResults } from '../faults/results.ts'
import { faults } from '../support/faults/faults.ts'
import { root } from '../support/programs.ts'
import { defaultFamilies } from '../support/redis-clients.ts'

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

it('docs/internals/outages.md has the recorded figures', async () => {
  const page = read('docs/internals/outages.md')
  expect((await pageOf(page, readResults())) === page, 'docs/internals/outages.md is out of date: npm run faults').toBe(
    true,
  )
})

it('every fault was measured with every client', () => {
  const { rows } = readResults()
  const measured = new Set(rows.map(({ fault, client, kind }) => [kind, fault, client].join()))
  const expected = faults.flatMap(({ name, places }) =>
    // A store in another process is tested with these faults, and not measured: no client of Redis reaches it.
    places
      .filter((kind) => kind !== 'remote')
      .flatMap((kind) => defaultFamilies.map((family) => [kind, name, family.name].join())),
  )
  expect(expected.filter((each) => !measured.has(each))).toEqual([])
  expect(measured.size).toBe(expected.length)
})
