// Tests what the playground makes of its input: limits, code, traffic and links.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import * as sluice from '../../src/index.ts'
import { mostWithin } from '../../docs/plot/decide.ts'
import { algorithms, commonFields, fieldsOf } from '../../docs/site/playground/catalog.ts'
import { checkedLimits, compare, madeOf } from '../../docs/site/playground/compare.ts'
import { codeOf, type LimitForm, limitOf, programOf, withAlgorithm } from '../../docs/site/playground/forms.ts'
import { LONGEST_TEXT, parseTimes, timesText } from '../../docs/site/playground/paste.ts'
import { fromHash, toHash } from '../../docs/site/playground/share.ts'
import { mostWithin as mostInWindow } from '../../docs/site/playground/simulate.ts'
import { durationOf, exactText, timeText } from '../../docs/site/playground/text.ts'
import { COLUMNS, columnsOf, MOST_REQUESTS, presets, withColumn, withSpan } from '../../docs/site/playground/traffic.ts'
import { builtIn } from '../../src/algorithms/index.ts'

const gcra: LimitForm = { algorithm: 'gcra', values: { quota: '10', window: '10s' } }

/** A form with a value in each of its options. */
const full: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  gcra: { quota: '10', window: '10s', burst: '5', strict: 'true' },
  tokenBucket: { quota: '10', window: '10s', capacity: '20', refill: 'interval', initial: '5' },
  leakyBucket: { quota: '10', window: '10s', capacity: '4', shape: 'false', shadow: 'true' },
  spacing: { gap: '2s', name: "it's slow", block: '5s' },
  fixedWindow: { quota: '10', window: '1mo', anchor: 'calendar', timeZone: 'Europe/Berlin' },
  slidingWindowLog: {
    quota: '10',
    window: '10s',
    block: '1m',
    'block.after': '3',
    'block.factor': '2',
    'block.upTo': '1d',
  },
  slidingWindowCounter: { quota: '10', window: '10s' },
  slidingWindowBuckets: { quota: '10', window: '10s', buckets: '5' },
  quotaLinear: { quota: '10', window: '10s' },
  exponential: { quota: '10', window: '10s' },
}

/** Runs a call such as `gcra({ quota: 10, window: '10s' })` with the package. */
function run(code: string): unknown {
  // The code is what the form wrote above.
  // oxlint-disable-next-line typescript/no-implied-eval
  return new Function(...Object.keys(sluice), `return ${code}`)(...Object.values(sluice))
}

describe('the form', () => {
  it('has every algorithm', () => {
    expect(Object.keys(algorithms).toSorted()).toEqual(
      // The traffic has no ends of requests.
      builtIn.flatMap(({ name, renew }) => (renew === undefined ? name : [])).toSorted(),
    )
  })

  it.each(builtIn.filter(({ name }) => name in algorithms))('has every option of $name', ({ name, options }) => {
    const required = name === 'spacing' ? ['gap'] : ['quota', 'window']
    const shown = fieldsOf(name).map((field) => field.name)
    expect(shown).toEqual(expect.arrayContaining([...required, ...options]))
    expect(shown).toHaveLength(required.length + options.length + commonFields.length)
  })

  it.each(Object.entries(full))('writes code for %s that makes the same limit', (algorithm, values) => {
    const form = { algorithm, values }
    expect(run(codeOf(form))).toEqual(limitOf(form))
    expect(limitOf(form).algorithm).toBe(algorithm)
  })

  it('passes each option to the engine', () => {
    const made = Object.entries(full).map(([algorithm, values]) => limitOf({ algorithm, values }))
    const [gcra, bucket, queue, spacing, calendar, log] = made
    expect(gcra).toMatchObject({ quota: 10, window: 10_000, burst: 5, strict: true })
    expect(bucket).toMatchObject({ capacity: 20, refill: 'interval', initial: 5 })
    expect(queue).toMatchObject({ capacity: 4, shape: false, shadow: true })
    expect(spacing).toMatchObject({ window: 2000, name: "it's slow", block: 5000 })
    expect(calendar).toMatchObject({ anchor: 'calendar', timeZone: 'Europe/Berlin' })
    expect(log!.block).toMatchObject({ after: 3, for: 60_000, factor: 2, upTo: 86_400_000 })
  })

  it('writes a program with one import of each algorithm', () => {
    expect(programOf([gcra, gcra, { algorithm: 'spacing', values: { gap: '2s' } }])).toContain(
      `import { gcra, spacing } from 'sluice'\nimport { byIP, rateLimit } from 'sluice/express'\n`,
    )
  })

  it('has a complete limit after each change of the algorithm', () => {
    const names = Object.keys(algorithms)
    for (const before of names) {
      const form = withAlgorithm(gcra, before)
      for (const after of names) expect(madeOf(withAlgorithm(form, after)).wrong).toBeUndefined()
    }
  })

  it.each([
    [{ quota: 'abc', window: '10s' }, /^quota: expected a whole number.*, got "abc"$/],
    [{ quota: ' ', window: '10s' }, /^quota: expected a whole number.*, got " "$/],
    [{ quota: '0x10', window: '10s' }, /^quota: expected a whole number.*, got "0x10"$/],
    [{ quota: '', window: '10s' }, /^quota: expected a whole number.*, got ""$/],
    [{ quota: '-1', window: '10s' }, /^quota: expected a whole number.*, got -1$/],
    [{ quota: '10', window: '10s', burst: 'NaN' }, /^burst: expected a whole number.*, got "NaN"$/],
    [{ quota: '10', window: '10' }, /^window: expected/],
    [{ quota: '10' }, /^window: expected/],
    [{ quota: '10', window: '10s', name: 'ä' }, /^name: expected/],
  ])('reports what is wrong with %j', (values, message) => {
    const { wrong } = madeOf({ algorithm: 'gcra', values: values as LimitForm['values'] })
    expect(wrong).toMatch(message)
    expect(wrong).not.toContain('docs/')
  })
})

describe('the comparison', () => {
  it('has all limits together, each by itself, and every other algorithm', () => {
    const forms = [gcra, { algorithm: 'spacing', values: { gap: '1s' } }]
    const lines = compare(forms, forms.map(limitOf), [0, 10, 1000], true)
    expect(lines.map(({ title }) => title)).toEqual([
      'All limits together',
      "Only gcra({ quota: 10, window: '10s' })",
      "Only spacing('1s')",
      ...Object.keys(algorithms).filter((name) => name !== 'gcra'),
    ])
    expect(lines.slice(0, 3).map(({ summary }) => summary!.allowed)).toEqual([2, 3, 2])
  })

  it('reports two limits of one name', () => {
    const { limits, together } = checkedLimits([gcra, gcra])
    expect(limits).toBeUndefined()
    expect(together).toMatch(/10-per-10s/)
  })

  it('names the field of a mistake', () => {
    const fieldOf = (values: LimitForm['values']): string | undefined =>
      checkedLimits([gcra, { algorithm: 'slidingWindowLog', values: { quota: '1', window: '1s', ...values } }])
        .errors[1]?.field
    expect(fieldOf({ quota: 'abc' })).toBe('quota')
    expect(fieldOf({ window: '1' })).toBe('window')
    expect(fieldOf({ block: 'abc' })).toBe('block')
    expect(fieldOf({ block: 'abc', 'block.after': '2' })).toBe('block')
    expect(fieldOf({ block: '1s', 'block.after': 'abc' })).toBe('block.after')
    expect(fieldOf({})).toBeUndefined()
  })

  it('has plain figures, or names the field, for any text in any field', () => {
    const texts = ['', '-1', '0', '1.5', '9'.repeat(64), '9007199254740991', 'abc', 'NaN', '-5s', '99999999d', '<b>']
    for (const algorithm of Object.keys(algorithms)) {
      const { values } = withAlgorithm(gcra, algorithm)
      for (const { name, kind } of fieldsOf(algorithm).filter((each) => each.kind !== 'choice')) {
        for (const text of texts) {
          const form = { algorithm, values: { ...values, block: '1m', [name]: text } }
          const { limits, errors } = checkedLimits([form])
          const where = `${algorithm} ${name} ${text}`
          const { message = '', field } = errors[0] ?? {}
          // Numbers that are too large to count exactly are a mistake of several fields.
          if (message !== '') expect([where, message.startsWith('A quota of') ? name : field]).toEqual([where, name])
          else if (kind !== 'text') expect(['abc', '-1', '-5s', '<b>'], where).not.toContain(text)
          const lines = limits === undefined ? [] : compare([form], limits, [0, 10, 1000], true)
          expect(JSON.stringify(lines.map(({ summary }) => summary)), where).not.toMatch(/null|NaN/)
        }
      }
    }
  })

  it('has no spacing for a quota of 0, which has no gap', () => {
    const form = { algorithm: 'gcra', values: { quota: '0', window: '10s' } }
    const lines = compare([form], [limitOf(form)], [0], true)
    expect(lines.map(({ wrong }) => wrong)).toEqual(lines.map(() => undefined))
    expect(lines.map(({ title }) => title)).not.toContain('spacing')
  })

  it('counts the most in any window', () => {
    const times = fc.array(fc.nat(3000), { maxLength: 40 })
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 1000 }), (given, length) => {
        expect(mostInWindow(given, length)).toBe(mostWithin(given, length))
      }),
    )
  })
})

describe('traffic', () => {
  const target = fc.record({ quota: fc.nat(1_000_000), window: fc.integer({ min: 1, max: 366 * 86_400_000 }) })

  it.each(Object.entries(presets))('%s fits the time line', (_title, make) => {
    fc.assert(
      fc.property(target, (each) => {
        const { times, span } = make(each)
        expect(times.length).toBeGreaterThan(0)
        expect(times.length).toBeLessThanOrEqual(MOST_REQUESTS)
        expect(times).toEqual(times.toSorted((a, b) => a - b))
        expect(times.every((time) => Number.isInteger(time) && time >= 0 && time < span)).toBe(true)
      }),
    )
  })

  it('a drawn column changes only itself', () => {
    const column = fc.nat(COLUMNS - 1)
    const count = fc.nat(50)
    const span = fc.integer({ min: 3000, max: 1_000_000_000 })
    fc.assert(
      fc.property(column, count, span, (at, wanted, length) => {
        const before = withSpan(presets['Steady']!({ quota: 10, window: 10_000 }), length)
        const counts = columnsOf(before)
        expect(columnsOf(withColumn(before, at, wanted))).toEqual(counts.with(at, wanted))
      }),
    )
  })

  it('has a bound', () => {
    const flood = presets['A flood']!({ quota: 1_000_000, window: 1000 })
    expect(withColumn(flood, 0, 1000).times).toHaveLength(MOST_REQUESTS)
  })

  it.each([
    ['0 0.5 500ms\n2s,1m', [0, 500, 500, 2000, 60_000]],
    ['2026-01-31T12:00:01.5Z 2026-01-31T12:00:00Z', [0, 1500]],
  ])('reads %j', (text, times) => {
    expect(parseTimes(text).times).toEqual(times)
    expect(parseTimes(timesText(times)).times).toEqual(times)
  })

  it.each([
    ['', /^There are no times\. Expected seconds such as 0\.5/],
    ['0 soon', /^Time 2 is "soon"\. Expected seconds/],
    ['-1', /^Time 1 is "-1"/],
    ['2026-99-99T99:00:00Z', /^Time 1 is/],
    ['0 2026-01-31T12:00:00Z', /^The list has dates and other times/],
    ['0 400d', /more than a year/],
    ['0 '.repeat(MOST_REQUESTS + 1), /^There are 2001 times\. The most is 2000/],
    [' '.repeat(LONGEST_TEXT + 1), /longer than 100000 characters/],
  ])('refuses %j', (text, message) => {
    expect(() => parseTimes(text)).toThrow(message)
  })

  it('writes and reads durations', () => {
    expect([0, 250, 1500, 90_000, 86_400_000].map(timeText)).toEqual(['0s', '250ms', '1.5s', '1.5m', '1d'])
    expect([0, 250, 1500, 73_441_500, 86_400_000].map(exactText)).toEqual(['0s', '0.25s', '1.5s', '20h 24m 1.5s', '1d'])
    expect([' 90 s', '1.5m', '10', 'soon'].map(durationOf)).toEqual([90_000, 90_000, undefined, undefined])
  })
})

describe('a link', () => {
  it.each(Object.entries(full))('opens %s again', (algorithm, values) => {
    const scenario = { forms: [{ algorithm, values }], traffic: presets['Bursts']!({ quota: 10, window: 10_000 }) }
    expect(fromHash(toHash(scenario))).toEqual(scenario)
  })

  const limits = '[{"algorithm":"gcra","values":{"quota":"1"}}]'
  const refused: readonly (readonly [hash: string, what: string])[] = [
    ['', 'nothing'],
    [`limits=[]&span=1000&times=`, 'no limit'],
    [`limits=[{"algorithm":"toString","values":{}}]&span=1000&times=`, 'an unknown algorithm'],
    [`limits=[{"algorithm":"gcra","values":{"constructor":"1"}}]&span=1000&times=`, 'an unknown option'],
    [`limits=[{"algorithm":"gcra","values":{"quota":1}}]&span=1000&times=`, 'a value that is no text'],
    [`limits=[{"algorithm":"gcra","values":{"quota":"${'1'.repeat(65)}"}}]&span=1000&times=`, 'a long value'],
    [`limits=[${Array.from({ length: 6 }, () => limits.slice(1, -1)).join(',')}]&span=1000&times=`, 'six limits'],
    [`limits=${limits}&span=0&times=`, 'no span'],
    [`limits=${limits}&span=1000&times=0.rs`, 'a time after the end'],
    [`limits=${limits}&span=1000&times=${'0.'.repeat(MOST_REQUESTS)}0`, 'too many times'],
    [`limits=${limits}&span=1000&times=${'0'.repeat(100_000)}`, 'a long text'],
  ]
  it.each(refused.map(([hash, what]) => [what, hash]))('is refused if it has %s', (_what, hash) => {
    expect(fromHash(`#limits=${encodeURIComponent(limits)}&span=1000&times=0.rr`)).toBeDefined()
    expect(fromHash(`#${hash}`)).toBeUndefined()
  })
})
