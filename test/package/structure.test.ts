import { dirname, posix } from 'node:path'
import { expect, it } from 'vitest'
import { sources } from '../support/codes.ts'

const files = [...sources.keys()]

/** Returns the imports of a file, types included. */
function importsOf(file: string): string[] {
  const statements = sources.get(file)!.matchAll(/^(?:import|export)\b[^'"]*?from '([^']+)'|^import '([^']+)'/gm)
  return Array.from(statements, ([, from, bare]) => (from ?? bare)!)
}

/** The folder of a file, as a layer: `src/stores/memory`, `adapters/koa`. */
function folderOf(file: string): string {
  return dirname(file)
}

/** Folders and the folders that their files import. A folder contains its subfolders and is not compared with them. */
function folderGraph(): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>()
  for (const file of files) {
    const from = folderOf(file)
    const targets = graph.get(from) ?? new Set()
    graph.set(from, targets)
    for (const imported of importsOf(file)) {
      if (!imported.startsWith('.')) continue
      const to = folderOf(posix.join(from, imported))
      if (to !== from && !to.startsWith(`${from}/`) && !from.startsWith(`${to}/`)) targets.add(to)
    }
  }
  return graph
}

/** Returns a path of folders that ends where it starts, or undefined. */
function cycleIn(graph: ReadonlyMap<string, ReadonlySet<string>>): string[] | undefined {
  const done = new Set<string>()
  function visit(node: string, path: readonly string[]): string[] | undefined {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node]
    if (done.has(node)) return undefined
    for (const next of graph.get(node) ?? []) {
      const found = visit(next, [...path, node])
      if (found !== undefined) return found
    }
    done.add(node)
    return undefined
  }
  for (const node of graph.keys()) {
    const found = visit(node, [])
    if (found !== undefined) return found
  }
  return undefined
}

it('the structure has no cycle of folders', () => {
  expect(cycleIn(folderGraph())).toBeUndefined()
})
