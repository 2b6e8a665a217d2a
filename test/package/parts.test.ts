// No test is lost between `npm test` and `npm run test:all`.
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { describe, expect, it } from 'vitest'
import { BOTH, REST } from '../parts.ts'
import { root } from '../support/programs.ts'

const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .map((name) => posix.join('test', name.replaceAll('\\', '/')))
  .filter((name) => name.endsWith('.test.ts'))
const isAt = (place: string) => (file: string) =>
  file === place || (place.endsWith('**') && file.startsWith(place.slice(0, -2)))

describe('the list of what npm test leaves out', () => {
  it.each([...Object.keys(REST), ...Object.keys(BOTH)])('%s has tests', (place) => {
    expect(files.filter(isAt(place))).not.toEqual([])
  })

  it('has no file twice', () => {
    const places = [...Object.keys(REST), ...Object.keys(BOTH)]
    expect(files.filter((file) => places.filter((place) => isAt(place)(file)).length > 1)).toEqual([])
  })

  it('names each file whose cases are shared by both parts', () => {
    const shared = files.filter((file) => {
      if (file === 'test/package/parts.test.ts') return false
      return /\b(casesHere|casesAtLength|twoClients|twoFrameworks|frameworkOfEachAdapter|SLUICE_EQUALITY)\b/.test(
        readFileSync(join(root, file), 'utf8'),
      )
    })
    expect(shared.toSorted()).toEqual(Object.keys(BOTH).toSorted())
  })
})
