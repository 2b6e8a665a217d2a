import fc from 'fast-check'
import { expect, it } from 'vitest'
import { nearest } from '../../src/util/validate.ts'

it.each([
  ['kitten', 'sitting', 3],
  ['sunday', 'saturday', 3],
  ['', 'abc', 3],
  ['abc', '', 3],
  ['Same', 'sAME', 0],
  ['window', 'windows', 1],
  ['ab', 'ba', 2],
])('%s and %s differ by %i letters', (one, other, distance) => {
  expect(nearest(one, [other], distance)).toBe(other)
  expect(nearest(one, [other], distance - 1)).toBeUndefined()
})

it('finds a name with so many changed letters, and takes the one with the fewest', () => {
  const letter = fc.constantFrom('a', 'b', 'c')
  const changes = fc.array(fc.tuple(fc.nat(20), fc.nat(1), fc.option(letter)), { maxLength: 3 })
  fc.assert(
    fc.property(fc.string({ unit: letter, maxLength: 12 }), changes, (name, list) => {
      let typed = name
      for (const [at, removed, added] of list) typed = typed.slice(0, at) + (added ?? '') + typed.slice(at + removed)
      expect(nearest(typed, [name], list.length)).toBe(name)
      expect(nearest(typed, [`${name}xxxx`, name], list.length + 4)).toBe(name)
    }),
  )
})
