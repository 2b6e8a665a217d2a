// What the page of sluice replay says; replay-html.test.ts opens it in a browser.
import { expect, it } from 'vitest'
import { htmlOf } from '../../src/cli/replay/html.ts'
import { report } from '../support/replay-report.ts'

const text = htmlOf(report)

function times(pattern: RegExp): number {
  return [...text.matchAll(pattern)].length
}

it('has a legend, and the unit and the ends of each axis', () => {
  const plots = 3
  expect(times(/<figcaption class="legend">.*admitted.*denied.*<\/figcaption>/g)).toBe(plots)
  expect(times(/<p class="unit">requests per 4 s<\/p>/g)).toBe(plots)
  expect(times(/<span>4<\/span><span>0<\/span>/g)).toBe(plots)
  expect(times(/<span>2026-11-22 11:00:00<\/span><span>2026-11-22 11:08:20<\/span>/g)).toBe(plots)
  expect(times(/<figcaption class="legend">.*too lenient: .*too strict: .*<\/figcaption>/g)).toBe(1)
})

it('has all of its content in one landmark', () => {
  expect(text).toMatch(/<body>\n<svg class="hidden"[^]*?<\/svg>\n<main>\n<h1>[^]*<\/main>\n<\/body>/)
})

it('has colours that differ in blue, for people who cannot tell red from green', () => {
  const blueOf = (name: string): number => parseInt(new RegExp(`--${name}: #....(..)`).exec(text)![1]!, 16)
  expect(Math.abs(blueOf('plain') - blueOf('striped'))).toBeGreaterThan(100)
})

it('has hostile keys as text, and no script', () => {
  expect(text).toMatch(/Content-Security-Policy" content="default-src 'none'; style-src 'sha256-[\w+/=]+'; /)
  expect(text).not.toContain('<script')
  expect(text).not.toContain('\u202e')
  expect(text).not.toMatch(/ style=| on\w+="/)
})
