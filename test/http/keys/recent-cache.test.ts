import { describe, expect, test } from 'vitest'
import { recentCache } from '../../../src/http/keys/address.ts'

function counted(size: number) {
  const made: string[] = []
  const recall = recentCache(size, (text) => {
    made.push(text)
    return text === 'nothing' ? undefined : `<${text}>`
  })
  return { made, recall }
}

describe('recentCache', () => {
  test('computes a result once', () => {
    const { made, recall } = counted(2)
    expect([recall('a'), recall('a'), recall('b'), recall('a')]).toEqual(['<a>', '<a>', '<b>', '<a>'])
    expect(made).toEqual(['a', 'b'])
  })

  test('keeps the latest results', () => {
    const { made, recall } = counted(10)
    for (let i = 0; i < 1000; i++) recall(`${i}`)
    made.length = 0
    for (let i = 999; i >= 990; i--) recall(`${i}`)
    expect(made).toEqual([])
    for (let i = 0; i < 970; i++) recall(`${i}`)
    expect(made).toHaveLength(970)
  })

  test('keeps a text that is used regularly', () => {
    const { made, recall } = counted(10)
    for (let i = 0; i < 1000; i++) {
      recall('often')
      recall(`${i}`)
    }
    expect(made.filter((text) => text === 'often')).toHaveLength(1)
  })

  test('does not keep undefined, and no long texts', () => {
    const { made, recall } = counted(10)
    const long = 'x'.repeat(65)
    for (let i = 0; i < 3; i++) expect([recall('nothing'), recall(long)]).toEqual([undefined, `<${long}>`])
    expect(made).toHaveLength(6)
  })
})
