// Checks README.md, except its code blocks.
import { expect, it } from 'vitest'
import { readPage } from '../support/pages.ts'

const readme = readPage('README.md')

it('README.md says how to run the tests and the showcase, and that tests may install a server', () => {
  expect(readme).toMatch(/^npm ci && npm start /m)
  expect(readme).toMatch(/^npm start -- --once /m)
  expect(readme).toMatch(/^npm ci && npm test /m)
  expect(readme).toMatch(/tests may install a server \(`redis-server`\)/)
})
