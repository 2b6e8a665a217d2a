// The option `block` of a limit as an object.
import { describe, expect, it } from 'vitest'
import { limit, perMinute } from '../../src/index.ts'

const made = (block: unknown): unknown => perMinute(5, { block: block as '1m' }).block

describe('a block that grows', () => {
  it('has defaults', () => {
    expect(made({ after: 3, for: '1m', factor: 2, upTo: '1d' })).toEqual({
      after: 3,
      for: 60_000,
      factor: 2,
      upTo: 86_400_000,
    })
    expect(made({ for: '1m', factor: 2 })).toEqual({ after: 1, for: 60_000, factor: 2, upTo: 86_400_000 })
    expect(made({ for: '2d', factor: 1.5 })).toMatchObject({ upTo: 172_800_000 })
    expect(made({ after: 3, for: '1m' })).toEqual({ after: 3, for: 60_000, factor: 1, upTo: 60_000 })
  })

  it('that does not grow is the plain one', () => {
    expect(made({ for: '1m' })).toBe(60_000)
    expect(made({ after: 1, for: '1m', factor: 1, upTo: '1h' })).toBe(60_000)
  })

  it('is frozen data that reads itself from JSON', () => {
    const block = { after: 3, for: '1m', factor: 1.25, upTo: '1d' } as const
    const first = perMinute(5, { block })
    expect(Object.isFrozen(first.block)).toBe(true)
    expect(limit(JSON.parse(JSON.stringify(first)))).toEqual(first)
  })

  it.each([
    [{}, 'block.for'],
    [{ for: 0 }, 'block.for'],
    [{ for: 'soon' }, 'block.for'],
    [{ for: '36526d' }, 'block.for'],
    [{ for: '1m', after: 0 }, 'block.after'],
    [{ for: '1m', after: 1.5 }, 'block.after'],
    [{ for: '1m', factor: 0.5 }, 'block.factor'],
    [{ for: '1m', factor: 1001 }, 'block.factor'],
    [{ for: '1m', factor: Number.NaN }, 'block.factor'],
    [{ for: '1m', factor: '2' }, 'block.factor'],
    [{ for: '1m', upTo: '59s' }, 'block.upTo'],
    [{ for: '1m', upTo: '36526d' }, 'block.upTo'],
    [{ for: '1m', upto: '1h' }, 'Did you mean "upTo"'],
    [[], 'block'],
    [null, 'block'],
    [true, 'block'],
  ])('refuses %j and names %s', (block, name) => {
    expect(() => made(block)).toThrow(name)
  })
})
