import type { Algorithm } from '../../src/algorithms/algorithm.ts'

/** Returns the rows of the table of algorithms, as `name cells`. */
export function tableOfAlgorithms(markdown: string): string[] {
  const rows = [...markdown.matchAll(/^\| `(\w+)` .*\| (\d) numbers?[^|]*\|$/gm)]
  return rows.map(([, name, cells]) => `${name} ${cells}`).toSorted()
}

/** Returns the rows that the table must have for these algorithms. */
export function rowsFor(algorithms: readonly Algorithm[]): string[] {
  return algorithms.map(({ name, initialState }) => `${name} ${initialState.length}`).toSorted()
}
