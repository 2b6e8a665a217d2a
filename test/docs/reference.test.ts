// Checks that the reference lists everything there is.
import { expect, it } from 'vitest'
import { builtIn } from '../../src/algorithms/index.ts'
import { rowsFor, tableOfAlgorithms } from '../support/algorithm-table.ts'
import { errorCodes, warningCodes } from '../support/codes.ts'
import { readPage } from '../support/pages.ts'

it('docs/reference/errors-and-warnings.md has a heading for every error and warning', () => {
  const page = readPage('docs/reference/errors-and-warnings.md')
  const headings = [...page.matchAll(/^### ([A-Z_]+)$/gm)].map(([, code]) => code!)
  expect(headings.toSorted()).toEqual([...errorCodes, ...warningCodes].toSorted())
})

it('docs/concepts/algorithms.md lists every algorithm and the size of its state', () => {
  expect(tableOfAlgorithms(readPage('docs/concepts/algorithms.md'))).toEqual(rowsFor(builtIn))
})
