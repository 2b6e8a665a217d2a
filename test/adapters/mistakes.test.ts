// Mistakes with parentheses: a keyer that is called, and a function that is not.
import { describe, expect, test } from 'vitest'
import { builtIn } from '../../src/algorithms/index.ts'
import * as sluice from '../../src/index.ts'
import { modulesOfAdapters } from '../support/adapters.ts'
import { redisStore } from '../../src/rules/redis/index.ts'

const adapters = await modulesOfAdapters()
const { createLimiter, everyone, perMinute } = sluice

/** Returns the code and the message of the error that a function throws. */
function mistakeOf(mistake: () => unknown): string {
  try {
    mistake()
  } catch (error) {
    if (error instanceof sluice.SluiceError) return `${error.code} ${error.message.replace(/ \(sluice.*$/, '')}`
    throw error
  }
  return 'no error'
}

function named(names: readonly string[]): [string, string, (...given: never[]) => unknown][] {
  return Object.entries(adapters).flatMap(([adapter, exported]) =>
    names
      .filter((name) => name in exported)
      .map((name): [string, string, (...given: never[]) => unknown] => [
        adapter,
        name,
        exported[name] as () => unknown,
      ]),
  )
}

describe('a keyer that is called in place of being passed', () => {
  const keyers = named(['byIP', 'byMethod', 'byRoute', 'byHandler'])

  test('is found in each adapter', () => expect(keyers.length).toBe(6 + 7 + 5 + 1))

  test.each(keyers)('is refused: %s, %s()', (_adapter, name, keyer) => {
    const expected = `INVALID_OPTION keyer: expected \`keyer: ${name}\` without parentheses, got a call of ${name} without a request`
    expect(mistakeOf(() => keyer())).toBe(expected)
  })

  test('is refused: everyone()', () => {
    expect(mistakeOf(() => createLimiter({ keyer: everyone() as never, limits: perMinute(5) }))).toBe(
      'INVALID_OPTION keyer: expected a function from an input to its key, such as byIP (without parentheses), got "everyone"',
    )
    expect(mistakeOf(() => sluice.keyers(everyone() as never))).toMatch(/^INVALID_OPTION keyers: /)
  })
})

test.each(named(['byIP', 'byMethod']))(
  'the name of a keyer, which warnings have, is the one that users write: %s, %s',
  (_adapter, name, keyer) => {
    expect(keyer.name).toBe(name)
  },
)

describe('a function that is passed in place of being called', () => {
  test.each(named(['ipKeyer', 'byHeader', 'routeKeyer']))('is refused: %s, keyer: %s', (_adapter, name, maker) => {
    const refusal = new RegExp(`^INVALID_OPTION keyer: expected a call such as ${name}\\(.*\\), got function ${name}$`)
    expect(mistakeOf(() => createLimiter({ keyer: maker as never, limits: perMinute(5) }))).toMatch(refusal)
    expect(mistakeOf(() => sluice.keyers(maker as never))).toMatch(/^INVALID_OPTION keyers: expected a call such as /)
  })

  // In Fastify, it is a plugin.
  const middlewares = named(['rateLimit']).filter(([adapter]) => adapter !== 'fastify')
  test.each(middlewares)('is refused: %s, rateLimit, which gets a request', (_adapter, _name, rateLimit) => {
    const given = [new Request('http://localhost')] as unknown as never[]
    expect(mistakeOf(() => rateLimit(...given))).toContain('in a call where the app is created')
  })

  test('is refused: keyer: keyers', () => {
    expect(mistakeOf(() => createLimiter({ keyer: sluice.keyers as never, limits: perMinute(5) }))).toBe(
      'INVALID_OPTION keyer: expected a call such as keyers(byIP, byMethod), got function keyers',
    )
  })

  const factories = Object.entries(sluice).filter(([, made]) => {
    if (typeof made !== 'function') return false
    return made.name.startsWith('per') || builtIn.some(({ name }) => name === made.name)
  })

  test('is found among the exports', () => expect(factories.length).toBe(builtIn.length + 4))

  test.each(factories)('is refused: limits: %s', (name, factory) => {
    const refusal = new RegExp(`^INVALID_OPTION limits: expected a call such as ${name}\\(.*\\), got function ${name}$`)
    for (const limits of [factory, [factory], [perMinute(5), factory]])
      expect(mistakeOf(() => createLimiter({ keyer: everyone, limits: limits as never }))).toMatch(refusal)
  })

  test.each([
    ['store: memoryStore', { store: sluice.memoryStore }],
    ['store: redisStore', { store: redisStore }],
  ])('is refused: %s', (_what, option) => {
    expect(mistakeOf(() => createLimiter({ keyer: everyone, limits: perMinute(5), ...(option as object) }))).toMatch(
      /^INVALID_OPTION store: expected a store such as memoryStore\(\)/,
    )
  })
})
