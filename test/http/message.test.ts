import { describe, expect, test } from 'vitest'
import { messageReader, validateDenialOptions } from '../../src/http/message.ts'
import { D1 } from './decisions.ts'

describe('a message', () => {
  test('is written as JSON once, when the limit is created', () => {
    const message = { error: 'slow' }
    const read = messageReader(message)!
    message.error = 'changed'
    expect(read(D1, {})).toEqual({ type: 'application/json', text: '{"error":"slow"}' })
  })

  test('is refused when JSON cannot contain it', () => {
    const circular: Record<string, unknown> = {}
    circular['self'] = circular
    for (const message of [
      circular,
      { size: 1n },
      { toJSON: () => undefined },
      null,
      5,
      true,
      Symbol('no'),
      Promise.reject(new Error('no')),
    ])
      expect(() => validateDenialOptions({ message: message as never })).toThrow(/^message: expected a text, an object/)
  })

  test('may be empty', () => {
    expect(messageReader('')!(D1, {})).toEqual({ type: 'text/plain; charset=utf-8', text: '' })
  })
})
