import { expect, it } from 'vitest'
import { keepRequestsBy, outlive } from '../../src/util/worker.ts'
import { afterTest } from '../support/after-test.ts'

it('keeps a request until its work is done, if the runtime has a function for this', () => {
  const work = Promise.resolve()
  const kept: unknown[] = []
  outlive(work)
  afterTest(() => keepRequestsBy(() => undefined))
  keepRequestsBy((each) => void kept.push(each))
  outlive(work)
  expect(kept).toEqual([work])
})

it('does nothing without a current request', () => {
  afterTest(() => keepRequestsBy(() => undefined))
  keepRequestsBy(() => {
    throw new Error('no current request')
  })
  expect(() => outlive(Promise.resolve())).not.toThrow()
})
