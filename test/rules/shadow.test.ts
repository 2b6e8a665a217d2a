import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createLimiter, type Decision, type Limiter, memoryStore } from '../../src/index.ts'
import { createRules, type RulesDocument, type ShadowDenial } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { codeOf } from '../support/code-of.ts'
import { faultyStore } from '../support/faulty-store.ts'

const clock = virtualClock(Date.UTC(2026, 0, 1))

function document(quota: number, perUser = 100): RulesDocument {
  const limit = { algorithm: 'fixedWindow', window: '1h' }
  return {
    policies: [
      { name: 'api', key: 'everyone', limits: [{ ...limit, quota }] },
      { name: 'user', key: 'attribute:user', limits: [{ ...limit, quota: perUser }] },
    ],
  }
}

const by = (user: string): { attributes: { user: string } } => ({ attributes: { user } })

/** A document in shadow beside one that admits ten requests, and a limiter of both. */
const tried = (
  shadow: RulesDocument,
  current = document(10),
  onDenied: (denial: ShadowDenial<unknown>) => void = () => undefined,
) => {
  const rules = createRules(current)
  const limiter = createLimiter({ rules, store: memoryStore({ clock }) }) as Limiter<unknown, Decision>
  return { rules, limiter, trial: rules.shadow(shadow, { onDenied }) }
}

describe('rules.shadow', () => {
  it('counts what a tightened document would have denied, and denies nothing', () => {
    const { limiter, trial } = tried(document(3, 2))
    const decisions = ['a', 'a', 'a', 'b', 'b', 'c'].map((user) => limiter.consume(by(user)))
    expect(decisions.every(({ allowed, limits }) => allowed && limits.length === 2)).toBe(true)
    expect(trial.report).toMatchObject({
      requests: 6,
      denied: 3,
      newlyDenied: 3,
      newlyAllowed: 0,
      failed: 0,
      limits: [
        { policy: 'api', limit: 'api', denied: 2 },
        { policy: 'user', limit: 'user', denied: 1 },
      ],
    })
  })

  it.each<[string, (home: string) => string | URL]>([
    ['a file of YAML', (home) => join(home, 'new.yaml')],
    ['the URL of a file', (home) => pathToFileURL(join(home, 'new.json'))],
    ['a text of JSON', () => JSON.stringify(document(1))],
    ['a text of YAML', () => 'policies:\n  - { name: all, key: everyone, limits: [{ quota: 1, window: 1h }] }\n'],
    ['a line of YAML', () => 'policies: [{ name: all, key: everyone, limits: [{ quota: 1, window: 1h }] }]'],
  ])('takes %s', async (_, given) => {
    const home = mkdtempSync(join(tmpdir(), 'sluice-shadow-'))
    onTestFinished(() => rmSync(home, { recursive: true }))
    for (const name of ['new.yaml', 'new.json']) writeFileSync(join(home, name), JSON.stringify(document(1)))
    const rules = createRules(document(10))
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    const trial = await rules.shadow(given(home))
    for (let i = 0; i < 3; i++) void limiter.consume(by('a'))
    expect(trial.report).toMatchObject({ requests: 3, newlyDenied: 2 })
  })

  it.each([
    ['policies: [{ name: a }]', { code: 'INVALID_RULES', message: expect.stringContaining('line 1: policies[0].key') }],
    ['none.yaml', { code: 'ENOENT' }],
    [new URL('file:///rules.txt'), { code: 'INVALID_OPTION' }],
  ])('refuses %s', async (given, error) => {
    await expect(createRules(document(10)).shadow(given)).rejects.toMatchObject(error)
  })

  it('counts the requests that the document limits by `otherwise`', () => {
    const limits = [{ algorithm: 'fixedWindow', quota: 1, window: '1h' }]
    const { limiter, trial } = tried({ policies: [], otherwise: { key: 'everyone', limits } })
    void [1, 2].map(() => limiter.consume(by('a')))
    expect(trial.report.limits).toEqual([{ policy: 'otherwise', limit: 'otherwise', denied: 1 }])
  })

  it('leaves out limits of how many requests run at once, whose slots nobody would give back', () => {
    const limits = [
      { algorithm: 'concurrent', quota: 1 },
      { algorithm: 'fixedWindow', quota: 3, window: '1h', name: 'hourly' },
    ]
    const { limiter, trial } = tried({ policies: [{ name: 'all', key: 'everyone', limits }] })
    for (let i = 0; i < 5; i++) void limiter.consume(by('a'))
    expect(trial.report).toMatchObject({ requests: 5, denied: 2, limits: [{ limit: 'hourly', denied: 2 }] })
  })

  it('decides as the document would: all or nothing, whatever the current document decides', () => {
    const { limiter, trial } = tried(document(2), document(1))
    for (let i = 0; i < 3; i++) void limiter.consume(by('a'))
    expect(trial.report).toMatchObject({ requests: 3, denied: 1, newlyDenied: 0, newlyAllowed: 1 })
  })

  it('counts requests that have waited, too', async () => {
    const { limiter, trial } = tried(document(1))
    await limiter.wait(by('a'))
    await limiter.wait(by('a'))
    expect(trial.report).toMatchObject({ requests: 2, newlyDenied: 1 })
  })

  it('changes no usage of the current document, and counts no peek', () => {
    const { limiter, trial } = tried(document(3))
    void limiter.peek(by('a'))
    expect(trial.report.requests).toBe(0)
    void limiter.consume(by('a'), { cost: 2 })
    expect(limiter.consume(by('a')).limits.map(({ remaining }) => remaining)).toEqual([7, 97])
    expect(trial.report.denied).toBe(0)
    void limiter.consume(by('a'))
    expect(trial.report.denied).toBe(1)
  })

  it('calls onDenied with both decisions', () => {
    const denials: ShadowDenial<unknown>[] = []
    const { limiter } = tried(document(1), document(10), (denial) => void denials.push(denial))
    void limiter.consume(by('a'))
    const input = by('b')
    const enforced = limiter.consume(input)
    expect(denials).toHaveLength(1)
    expect(denials[0]).toMatchObject({ decision: { allowed: false, binding: { limit: { name: 'api', quota: 1 } } } })
    expect(denials[0]!.input).toBe(input)
    expect(denials[0]!.enforced).toBe(enforced)
  })

  it('ends with close, and is replaced by the next one', () => {
    const { rules, limiter, trial: first } = tried(document(5))
    void limiter.consume(by('a'))
    const second = rules.shadow(document(6))
    first.close()
    void limiter.consume(by('a'))
    second.close()
    void limiter.consume(by('a'))
    expect([first.report.requests, second.report.requests]).toEqual([1, 1])
  })

  it('does not delay or break a request when its store fails', async () => {
    const store = faultyStore()
    const rules = createRules(document(10))
    const limiter = createLimiter({ rules, store })
    const trial = rules.shadow(document(1))
    store.fault = (operation) =>
      'charges' in operation && operation.charges[0]!.limiter.startsWith('shadow:') ? new Error('broken') : undefined
    expect((await limiter.consume(by('a'))).allowed).toBe(true)
    await new Promise((resolve) => setImmediate(resolve))
    expect(trial.report).toMatchObject({ requests: 0, failed: 1 })
  })

  it('refuses a document with mistakes, and wrong options', () => {
    const rules = createRules(document(10))
    expect(codeOf(() => rules.shadow({ policies: [{ name: 'a', key: 'ip' }] }))).toBe('INVALID_RULES')
    expect(codeOf(() => rules.shadow(document(1), { ondenied: 1 } as never))).toBe('UNKNOWN_OPTION')
  })
})
