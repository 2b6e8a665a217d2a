import { expect, test } from 'vitest'
import { headerConfig } from '../../../src/http/headers/styles.ts'

test('a partition key needs a secret, which no message quotes', () => {
  expect(() => headerConfig({ headers: 'standard', partitionKey: { secret: '' } })).toThrow(
    expect.objectContaining({ code: 'INVALID_OPTION' }),
  )
  expect(() => headerConfig({ headers: 'standard', partitionKey: {} as { secret: string } })).toThrow(
    /partitionKey.secret/,
  )
  expect(() => headerConfig({ headers: 'standard', partitionKey: 'hunter2' as never })).toThrow(/, got a string \(/)
  expect(() => headerConfig({ headers: 'standard', partitionKey: null as never })).toThrow(
    /^partitionKey: expected options/,
  )
  expect(() => headerConfig({ headers: 'standard', partitionKey: { secret: 's', salt: 't' } as never })).toThrow(
    expect.objectContaining({ code: 'UNKNOWN_OPTION' }),
  )
})
