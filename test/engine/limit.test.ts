import { describe, expect, it } from 'vitest'
import { reasonOf } from '../../src/util/errors.ts'
import {
  fixedWindow,
  gcra,
  type GcraOptions,
  type Limit,
  leakyBucket,
  limit,
  type LimitInput,
  perDay,
  perHour,
  perMinute,
  perSecond,
  SluiceError,
  spacing,
  tokenBucket,
} from '../../src/index.ts'

function refused(make: () => unknown): SluiceError {
  try {
    make()
  } catch (error) {
    if (error instanceof SluiceError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('limit()', () => {
  it('returns plain frozen data', () => {
    const made = gcra({ quota: 100, window: '1m', burst: 20, strict: true, block: '15m' })
    const data = { algorithm: 'gcra', name: '100-per-1m', quota: 100, window: 60_000 }
    expect(made).toEqual({ ...data, burst: 20, strict: true, block: 900_000 })
    expect(Object.isFrozen(made)).toBe(true)
  })

  it('accepts weeks for every duration', () => {
    const made = fixedWindow({ quota: 5, window: '2w', anchor: 'clock', offset: '1w', block: '3w' })
    expect(made).toMatchObject({ name: '5-per-2w', window: 1_209_600_000, offset: '1w', block: 1_814_400_000 })
  })

  it('returns the same limit from JSON', () => {
    const bucket = tokenBucket({ quota: 1, window: 500, capacity: 3, initial: 0 })
    for (const made of [perSecond(10), bucket, spacing('2s', { name: 'gap' })])
      expect(limit(JSON.parse(JSON.stringify(made)) as LimitInput)).toEqual(made)
  })

  it('returns a limit that it has made', () => {
    const made = perSecond(10)
    expect(limit(made)).toBe(made)
  })

  it.each([
    [perSecond(10), '10-per-1s'],
    [perMinute(10), '10-per-1m'],
    [perHour(10), '10-per-1h'],
    [perDay(10), '10-per-1d'],
    [gcra({ quota: 5, window: 90_000 }), '5-per-90s'],
    [gcra({ quota: 5, window: 1500 }), '5-per-1500ms'],
    [gcra({ quota: 5, window: '48h' }), '5-per-2d'],
    [spacing('2s'), '1-per-2s'],
  ])('%o is named %s', (made: Limit, name) => {
    expect(made.name).toBe(name)
  })
})

describe('limit() with a wrong option', () => {
  it.each([-1, 1.5, NaN, Infinity, 2 ** 53, '10', null, undefined, 10n])('refuses quota %s', (quota) => {
    const error = refused(() => gcra({ quota: quota as number, window: '1s' }))
    expect(error).toMatchObject({ name: 'SluiceError', code: 'INVALID_OPTION' })
    expect(error.message).toMatch(/^quota: expected a whole number from 0 to 9007199254740991, got /)
  })

  const wrong = [0, -1, 0.5, NaN, Infinity, '', '1', '1 minute', '1.5s', '-1s', 'fast', '2y', '0s', null, undefined, {}]
  it.each(wrong)('refuses window %s', (window) => {
    const error = refused(() => gcra({ quota: 1, window: window as number }))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toMatch(/^window: expected whole milliseconds/)
  })

  it.each(['', 'café', 'a\nb', 'tab\t', '\u007f', 'x'.repeat(257), 5])('refuses name %j', (name) => {
    expect(refused(() => perSecond(1, { name: name as string })).code).toBe('INVALID_OPTION')
  })

  it('refuses an unknown option by its name', () => {
    const error = refused(() => gcra({ quota: 1, window: '1s', windw: 5 } as GcraOptions))
    expect(error.code).toBe('UNKNOWN_OPTION')
    expect(reasonOf(error)).toBe(
      'gcra has no option "windw"; it has algorithm, name, quota, window, strict, block, shadow, capCost, exact, notifyAt, burst. Did you mean "window"?',
    )
  })

  it.each([
    [() => gcra({ quota: 1, window: '1s', burst: -1 }), 'burst'],
    [() => tokenBucket({ quota: 1, window: '1s', capacity: 2.5 }), 'capacity'],
    [() => tokenBucket({ quota: 1, window: '1s', capacity: 2, initial: 3 }), 'initial'],
    [() => tokenBucket({ quota: 1, window: '1s', initial: -1 }), 'initial'],
    [() => leakyBucket({ quota: 1, window: '1s', shape: 'no' as unknown as boolean }), 'shape'],
    [() => limit({ algorithm: 'spacing', quota: 2, window: '1s' }), 'quota'],
    [() => perSecond(1, { strict: 1 as unknown as boolean }), 'strict'],
    [() => perSecond(1, { shadow: 'yes' as unknown as boolean }), 'shadow'],
    [() => perSecond(1, { block: -5 }), 'block'],
    [() => spacing(0), 'gap'],
    [() => spacing({ gap: '2s' } as unknown as number), 'gap'],
    [() => perSecond(1, { strict: true, shadow: true }), 'strict'],
    [() => limit(null as unknown as LimitInput), 'limit'],
  ])('names the option: %s', (make, option) => {
    const error = refused(make)
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message.startsWith(`${option}: expected `)).toBe(true)
  })

  const longer = (window: string): string => `(short for gcra({ quota, window: '${window}' }))`
  const common = 'name, strict, block, shadow, capCost, exact, notifyAt'
  it.each([
    [() => perMinute(100, { window: '1h' } as object), `perMinute ${longer('1m')} has no option`],
    [() => perDay(100, { quota: 5 } as object), `perDay ${longer('1d')} has no option`],
    [() => perSecond(100, 20 as never), `perSecond ${longer('1s')}: expected options such as`],
    [() => spacing('2s', { window: '1s' } as object), `spacing has no option "window"; it has ${common}`],
  ])('names the shorthand: %s', (make, message) => {
    expect(refused(make).message).toContain(message)
  })

  it('lists the algorithms when one is unknown', () => {
    const error = refused(() => limit({ algorithm: 'gcar', quota: 1, window: '1s' }))
    expect(error.code).toBe('UNKNOWN_ALGORITHM')
    expect(error.message).toContain('gcra')
  })

  it('refuses numbers whose products exceed exact integers, and names them', () => {
    const error = refused(() => gcra({ quota: 1_000_000_007, window: '365d' }))
    expect(error.code).toBe('OUT_OF_RANGE')
    expect(error.message).toContain('1000000007 per 31536000000 ms')
  })
})

describe('a block that grows', () => {
  const made = (block: unknown): unknown => perMinute(5, { block: block as '1m' }).block

  it('has defaults', () => {
    const whole = { after: 3, for: 60_000, factor: 2, upTo: 86_400_000 }
    expect(made({ after: 3, for: '1m', factor: 2, upTo: '1d' })).toEqual(whole)
    expect(made({ for: '1m', factor: 2 })).toEqual({ ...whole, after: 1 })
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
