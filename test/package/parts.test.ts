// No test is lost between `npm test` and `npm run test:all`.
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { describe, expect, it } from 'vitest'
import config from '../../vitest.config.ts'
import { FRESH_MODULES, BOTH, isAt, OWN_PROCESS, REST, SHORT_SEARCHES } from '../parts.ts'
import { root } from '../support/programs.ts'

const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .map((name) => posix.join('test', name.replaceAll('\\', '/')))
  .filter((name) => name.endsWith('.test.ts'))

describe('the list of what npm test leaves out', () => {
  it.each([...Object.keys(REST), ...Object.keys(BOTH)])('%s has tests', (place) => {
    expect(files.filter((file) => isAt(place, file))).not.toEqual([])
  })

  it('has no file twice', () => {
    const places = [...Object.keys(REST), ...Object.keys(BOTH)]
    expect(files.filter((file) => places.filter((place) => isAt(place, file)).length > 1)).toEqual([])
  })

  it('names each file whose cases are shared by both parts', () => {
    const functions = [
      'casesHere',
      'casesAtLength',
      'twoClients',
      'twoFrameworks',
      'frameworkOfEachAdapter',
      'QUICK',
      'SLOW_ONCE',
    ]
    const names = new RegExp(String.raw`\b(${[...functions, ...Object.keys(SHORT_SEARCHES)].join('|')})\b`)
    // The second one runs the tests of a copy.
    const others = ['test/package/parts.test.ts', 'test/algorithms/added.test.ts']
    const shared = files.filter((file) => {
      return !others.includes(file) && names.test(readFileSync(join(root, file), 'utf8'))
    })
    expect(shared.toSorted()).toEqual(Object.keys(BOTH).toSorted())
  })
})

/** The patterns of the projects of Vitest. Each is a file, or all tests of a folder. */
interface Project {
  readonly test: { readonly include: readonly string[]; readonly exclude?: readonly string[] }
}

it('each file is in a project of Vitest', () => {
  const isIn = (patterns: readonly string[], file: string): boolean =>
    patterns.some((pattern) => isAt(pattern.replace('/*.test.ts', ''), file))
  const projects = config.test!.projects as readonly Project[]
  const runs = (file: string): boolean =>
    projects.some(({ test: { include, exclude = [] } }) => isIn(include, file) && !isIn(exclude, file))
  expect(files.filter((file) => !runs(file))).toEqual([])
})

/** These have a state of the process. Checks of requests warn once for each app, limit or function, so they are not here. */
const ONCE = /SLUICE_(FORGOTTEN_RECEIPTS|SLOT_LOST|CREATED_PER_REQUEST)\b/
/**
 * It comes once a minute where a store cannot settle. Adapters and dashboards have one of their own for each limit. With the parentheses, this file
 * does not find itself.
 */
const OUTCOME = /SLUICE_(OUTCOME)\b/

describe('the list of files that load all modules again', () => {
  it('has those that have a process of their own', () => {
    expect(OWN_PROCESS.filter((file) => !(file in FRESH_MODULES))).toEqual([])
  })

  it.each(Object.keys(FRESH_MODULES))('%s exists', (file) => expect(files).toContain(file))

  it.each<[string, RegExp]>([
    ['replaces modules', /\bvi\.(resetModules|mock|doMock)\(/],
    ['adds algorithms', /\bdefineAlgorithm\([\w{]/],
    ['measures the heap', /\bheapUsed\b/],
    ['lists all functions that run', /\bfunctionsIn\(/],
    ['waits for a warning that comes once in a process or in a minute', ONCE],
    ['waits for a warning of settlements', OUTCOME],
  ])('names each file that %s', (_, pattern) => {
    const isFound = (file: string): boolean => pattern.test(readFileSync(join(root, file), 'utf8'))
    const hasOwnWarnings = (file: string): boolean => pattern === OUTCOME && /^test\/(adapters|dashboard)\//.test(file)
    expect(files.filter((file) => !(file in FRESH_MODULES) && !hasOwnWarnings(file) && isFound(file))).toEqual([])
  })
})
