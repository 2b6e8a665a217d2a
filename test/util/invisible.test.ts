import { expect, it } from 'vitest'
import { showInvisible } from '../../src/util/invisible.ts'

it.each([
  ['a control character', '\u001b[31m', '\\u001b[31m'],
  ['a line feed', 'a\nb', 'a\\u000ab'],
  ['a character that changes the direction of text', 'a\u202eb', 'a\\u202eb'],
  ['a character without a width', 'ann\u200b', 'ann\\u200b'],
  ['a separator of lines', 'a\u2028b', 'a\\u2028b'],
  ['a separator of paragraphs', 'a\u2029b', 'a\\u2029b'],
  ['both halves of a tag', '\u{e0041}', '\\udb40\\udc41'],
])('%s is shown as JSON writes it', (_, text, shown) => {
  expect(showInvisible(text)).toBe(shown)
})

it.each(['ann', 'Ünal', '日本', '👩', ' '])('%j stays as it is', (text) => {
  expect(showInvisible(text)).toBe(text)
})
