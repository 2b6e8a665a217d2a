// Checks that the reference lists everything there is.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { builtIn } from '../../src/algorithms/index.ts'
import { rowsFor, tableOfAlgorithms } from '../support/algorithm-table.ts'
import { readPage } from '../support/pages.ts'
import { root } from '../support/programs.ts'

/** Returns the codes of all errors. */
function errorCodes(): string[] {
  const source = readFileSync(join(root, 'src/util/errors.ts'), 'utf8')
  return [...source.matchAll(/^ {2}\| '([A-Z_]+)'$/gm)].map(([, code]) => code!)
}

/** Returns the codes of all warnings in the sources. */
function warningCodes(): string[] {
  const files = ['src', 'adapters'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(root, folder, file)),
  )
  const sources = files.filter((file) => file.endsWith('.ts')).map((file) => readFileSync(file, 'utf8'))
  return [...new Set(sources.flatMap((source) => source.match(/\bSLUICE_[A-Z_]+/g) ?? []))]
}

it('docs/reference/errors-and-warnings.md has a heading for every error and warning', () => {
  const page = readPage('docs/reference/errors-and-warnings.md')
  const headings = [...page.matchAll(/^### ([A-Z_]+)$/gm)].map(([, code]) => code!)
  expect(headings.toSorted()).toEqual([...errorCodes(), ...warningCodes()].toSorted())
})

it('docs/concepts/algorithms.md lists every algorithm and the size of its state', () => {
  expect(tableOfAlgorithms(readPage('docs/concepts/algorithms.md'))).toEqual(rowsFor(builtIn))
})
