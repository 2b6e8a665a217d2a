import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limit } from '../../src/engine/limit.ts'
import { events, forAll, Life, limits, names, Subject } from '../support/harness.ts'
import { modelOf } from '../support/model.ts'

/** The models are slow, so quotas are small. */
const quota = fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 60 }))
/** Algorithms have a model in test/support/model.ts where a definition other than the steps themselves exists. */
const modelled = names().filter((algorithm) => modelOf(limit({ algorithm, quota: 1, window: '1s' }), 1) !== undefined)

it('all algorithms that are older than this test have a model, except for exponential', () => {
  const old =
    'gcra tokenBucket leakyBucket spacing fixedWindow slidingWindowCounter slidingWindowLog slidingWindowBuckets quotaLinear'
  expect(modelled).toEqual(expect.arrayContaining(old.split(' ')))
})

describe.each(modelled)('%s', (name) => {
  it.each([
    ['in order', false],
    ['with a clock that steps back', true],
  ])('decides as the model does, %s', (_, back) => {
    const strict = name === 'quotaLinear' ? { strict: false } : {}
    const small = limits(name, { quota, ...strict }).filter((limit) => Number(limit['capacity'] ?? 0) < 100)
    forAll(small, events({ back, adjust: false }), (limit, trace) => {
      const life = new Life(new Subject(limit))
      const model = modelOf(limit, life.subject.window)!
      life.live(trace, ({ allowed, at, remaining }, cost, now) => {
        expect(at >= now && (back || at === now)).toBe(true)
        expect(allowed).toBe(model.admits(at, cost))
        if (allowed) model.charge(at, cost)
        else if (limit.strict === true) model.saturate(at, cost)
        else model.see(at)
        expect(remaining).toBe(model.remaining(at))
      })
    })
  })
})
