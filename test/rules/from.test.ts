import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Rules, type RulesDocument, rulesFrom } from '../../src/rules/index.ts'
import { afterTest } from '../support/after-test.ts'
import { warningsOf } from '../support/http.ts'
import { unhandled } from '../support/unhandled.ts'

function document(quota: number): RulesDocument {
  return { policies: [{ name: 'api', key: 'ip', limits: [{ quota, window: '1m' }] }] }
}

const wrong = { policies: [{ name: 'api', key: 'ip' }] }

/** A source that gives documents when the test does, and fails when it says so. */
function channel(): AsyncIterable<unknown> & {
  give(value: unknown): void
  fail(error: Error): void
  readonly returned: number
} {
  const waiting: { resolve(result: IteratorResult<unknown>): void; reject(error: Error): void }[] = []
  const given: unknown[] = []
  let returned = 0
  return {
    get returned() {
      return returned
    },
    give(value) {
      const next = waiting.shift()
      if (next === undefined) given.push(value)
      else next.resolve({ done: false, value })
    },
    fail: (error) => waiting.shift()!.reject(error),
    [Symbol.asyncIterator]: () => ({
      async next() {
        if (given.length > 0) return { done: false, value: given.shift() }
        return new Promise((resolve, reject) => waiting.push({ resolve, reject }))
      },
      async return() {
        returned++
        return { done: true, value: undefined }
      },
    }),
  }
}

/** Rules from a source that has given its first document. */
async function started(): Promise<{ readonly source: ReturnType<typeof channel>; readonly rules: Rules }> {
  const source = channel()
  source.give(document(1))
  const rules = await rulesFrom(source)
  afterTest(() => rules.close())
  return { source, rules }
}

const quotaOf = (rules: Rules): number => rules.current.policies[0]!.limits![0]!.quota

describe('rulesFrom', () => {
  it('continues after a listener has thrown; the error is a warning', async () => {
    const errors = unhandled()
    const failures: Error[] = []
    const note = (warning: Error): void => {
      if (warning.message.startsWith('A listener')) failures.push(warning)
    }
    process.on('warning', note)
    onTestFinished(() => void process.off('warning', note))
    const [first, second] = [channel(), channel()]
    first.give(document(1))
    second.give(document(3))
    const sources = [first, second]
    const rules = await rulesFrom(() => sources.shift()!)
    for (const event of ['invalid', 'unreachable'] as const)
      rules.on(event, () => {
        throw new Error(`a listener of ${event}`)
      })
    first.give(wrong)
    await vi.waitUntil(() => failures.length === 1)
    first.give(document(2))
    await vi.waitUntil(() => quotaOf(rules) === 2)
    first.fail(new Error('lost'))
    await vi.waitUntil(() => quotaOf(rules) === 3, { timeout: 10_000 })
    expect(failures.map(({ message }) => /Error: (a listener of \w+)/.exec(message)![1])).toEqual([
      'a listener of invalid',
      'a listener of unreachable',
    ])
    expect(errors).toEqual([])
    await rules.close()
  })

  it('waits for documents that are promises, and handles the rejection of one', async () => {
    const errors = unhandled()
    const rules = await rulesFrom([Promise.resolve(document(1)), Promise.reject(new Error('no document'))])
    const reported = once(rules, 'unreachable')
    expect(quotaOf(rules)).toBe(1)
    await reported
    expect(errors).toEqual([])
    await rules.close()
  })

  it('closes although the iterator of the source throws when it ends', async () => {
    const { [Symbol.asyncIterator]: iterator, give } = channel()
    give(document(1))
    const cannotEnd = (): never => {
      throw new Error('cannot end')
    }
    const rules = await rulesFrom({ [Symbol.asyncIterator]: () => ({ ...iterator(), return: cannotEnd }) })
    await expect(rules.close()).resolves.toBeUndefined()
  })

  it('keeps the last good document when one has mistakes, with one event and one warning', async () => {
    const { source, rules } = await started()
    const codes = await warningsOf(async () => {
      const invalid = once(rules, 'invalid')
      source.give(wrong)
      const [{ problems, error }] = (await invalid) as [{ problems: unknown; error: { code: string } }]
      expect(problems).toEqual([{ path: 'policies[0].limits', message: 'expected a value, got nothing' }])
      expect(error.code).toBe('INVALID_RULES')
    })
    expect(codes).toEqual(['SLUICE_RULES_INVALID'])
    source.give(document(3))
    await once(rules, 'change')
    expect(quotaOf(rules)).toBe(3)
  })

  it('reports the mistakes of a document once, however often a source that polls gives it, and again after a failure', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const source = channel()
    source.give(document(1))
    const rules = await rulesFrom(() => source)
    afterTest(() => rules.close())
    const events: string[] = []
    for (const event of ['change', 'invalid', 'unreachable', 'recovered'] as const)
      rules.on(event, () => void events.push(event))
    const give = async (...documents: readonly unknown[]): Promise<string[]> => {
      for (const each of documents) {
        source.give(each)
        await vi.advanceTimersByTimeAsync(10)
      }
      return events.splice(0)
    }
    await warningsOf(async () => {
      expect(await give(wrong, { ...wrong }, wrong)).toEqual(['invalid'])
      expect(await give({ policies: [{ name: 'api' }] }, wrong)).toEqual(['invalid', 'invalid'])
      source.fail(new Error('down'))
      await vi.advanceTimersByTimeAsync(1100)
      expect(await give(wrong, wrong)).toEqual(['unreachable', 'invalid'])
      expect(await give(document(1), wrong)).toEqual(['recovered', 'invalid'])
    })
  })

  it('keeps the last document when the source fails, and opens it again if it is a function', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const [first, second, third] = [channel(), channel(), channel()] as const
    const sources = [first, second, third]
    let opened = 0
    first.give(document(1))
    const rules = await rulesFrom(() => sources[opened++]!)
    let lost = 0
    rules.on('unreachable', () => lost++)
    const codes = await warningsOf(async () => {
      first.fail(new Error('connection reset'))
      await vi.advanceTimersByTimeAsync(999)
      expect([quotaOf(rules), lost, opened]).toEqual([1, 1, 1])
      await vi.advanceTimersByTimeAsync(1)
      expect(opened).toBe(2)
      second.fail(new Error('connection refused'))
      await vi.advanceTimersByTimeAsync(2000)
      expect([lost, opened]).toEqual([1, 3])
    })
    expect(codes).toEqual(['SLUICE_RULES_UNREACHABLE'])
    third.give(document(2))
    await vi.advanceTimersByTimeAsync(0)
    expect(quotaOf(rules)).toBe(2)
    await rules.close()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('fails to start without a good document, and leaves nothing behind', async () => {
    const broken = (): never => {
      throw new Error('no route to host')
    }
    await expect(rulesFrom([wrong])).rejects.toMatchObject({ code: 'INVALID_RULES' })
    await expect(rulesFrom([])).rejects.toMatchObject({ code: 'RULES_UNREACHABLE' })
    await expect(rulesFrom(broken)).rejects.toMatchObject({ code: 'RULES_UNREACHABLE', message: /no route to host/ })
    const silent = channel()
    await expect(rulesFrom(silent, { timeout: 20 })).rejects.toMatchObject({ code: 'RULES_UNREACHABLE' })
    expect(silent.returned).toBe(1)
  })

  it('starts with the fallback while the source cannot be read, and takes the document when it comes', async () => {
    const source = channel()
    const codes = await warningsOf(async () => {
      const rules = await rulesFrom(source, { timeout: 20, fallback: document(9) })
      const lost = once(rules, 'unreachable')
      expect([quotaOf(rules), rules.current.version]).toEqual([9, 0])
      await lost
      source.give(document(1))
      await once(rules, 'change')
      expect([quotaOf(rules), rules.current.version]).toEqual([1, 1])
      await rules.close()
    })
    expect(codes.filter((code) => code !== 'SLUICE_SHORT_DURATION')).toEqual([
      'SLUICE_RULES_UNREACHABLE',
      'SLUICE_RULES_RECOVERY',
    ])
  })

  it('has version 1 when a document has come, also if it is the same as the fallback', async () => {
    const source = channel()
    await warningsOf(async () => {
      const rules = await rulesFrom(source, { timeout: 20, fallback: document(9) })
      // The document comes before the failure was reported.
      source.give(document(9))
      await once(rules, 'recovered')
      expect([quotaOf(rules), rules.current.version]).toEqual([9, 1])
      await rules.close()
    })
  })

  it('starts with the fallback when the first document has mistakes', async () => {
    const codes = await warningsOf(async () => {
      const rules = await rulesFrom([wrong], { fallback: document(9) })
      const [{ problems }] = (await once(rules, 'invalid')) as [{ problems: unknown[] }]
      expect([quotaOf(rules), problems.length]).toEqual([9, 1])
    })
    expect(codes).toEqual(['SLUICE_RULES_INVALID'])
  })

  it('refuses a wrong source, wrong options and a fallback with mistakes', async () => {
    await expect(rulesFrom(7 as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    for (const [given, shown] of [
      [document(1), 'an object'],
      [undefined, 'undefined'],
      ['policies: []', '"policies: []"'],
    ])
      await expect(rulesFrom(async () => given as never)).rejects.toMatchObject({
        code: 'RULES_UNREACHABLE',
        message: expect.stringContaining(
          `read. rulesFrom: expected an iterable of documents from the function, such as an async generator, got ${shown as string} (sluice/docs/`,
        ) as string,
      })
    await expect(rulesFrom([], { fallbak: 1 } as never)).rejects.toMatchObject({ code: 'UNKNOWN_OPTION' })
    await expect(rulesFrom([], { timeout: '10 s' as never })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    for (const fallback of [wrong, null])
      await expect(rulesFrom([], { fallback: fallback as never })).rejects.toMatchObject({ code: 'INVALID_RULES' })
  })

  it('ignores what comes after close, and closes the iterable once', async () => {
    const { source, rules } = await started()
    await rules.close()
    await rules.close()
    source.give(document(2))
    await pause(5)
    expect([quotaOf(rules), source.returned]).toEqual([1, 1])
  })

  it('aborts the signal of a function when it is closed', async () => {
    const signals: AbortSignal[] = []
    const rules = await rulesFrom((signal) => {
      signals.push(signal)
      return [document(1)]
    })
    expect(signals.map(({ aborted }) => aborted)).toEqual([false])
    await rules.close()
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
  })
})
