// The JavaScript of the programs in pages: what stands below the first example of each guide, and the tabs of the site. `pages.test.ts` runs it.
// `SLUICE_RECORD=javascript npx vitest run test/docs/javascript.test.ts` writes it.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { besideOf, javaScriptOf } from '../../docs/site/javascript.ts'
import { pages, readPage } from '../support/pages.ts'
import { root } from '../support/programs.ts'

const RECORDS = process.env['SLUICE_RECORD'] === 'javascript'

/** The first program of a page, with its transcript, and the JavaScript below it. */
const FIRST =
  /^```ts\n([^]*?)^```\n(?:\n```console\n[^]*?^```\n)?(\n(?:<details>\n<summary>The same in JavaScript[^]*?<\/details>|This example is also JavaScript\..*|The decorators of this example .*)\n)?/m

const guides = pages.filter((page) => /^docs\/(guides|migrating)\//.test(page) && FIRST.test(readPage(page)))

/** Writes a page with what it should contain, if asked to, and returns what it contains. */
function recorded(page: string, wanted: string): string {
  if (RECORDS) writeFileSync(join(root, page), wanted)
  return readPage(page)
}

describe('the first example', () => {
  it.each(guides)('of %s stands there in JavaScript, too', async (page) => {
    const markdown = readPage(page)
    const [whole, program, beside = ''] = FIRST.exec(markdown)!
    const wanted = `${whole.slice(0, whole.length - beside.length)}${await besideOf(program!, '../../README.md')}`
    expect(
      recorded(
        page,
        markdown.replace(whole, () => wanted),
      ),
    ).toContain(wanted)
  })

  it('of README.md stands there with `require`', async () => {
    const markdown = readPage('README.md')
    const { commonJs } = (await javaScriptOf(FIRST.exec(markdown)![1]!))!
    const written = markdown.replace(
      /(## JavaScript\n[^]*?```js\n)[^]*?```\n/,
      (_, before) => `${before}${commonJs}\`\`\`\n`,
    )
    expect(recorded('README.md', written)).toContain(`\`\`\`js\n${commonJs}\`\`\`\n`)
  })

  it('is checked in most guides', () => expect(guides.length).toBeGreaterThan(25))
})

it('JavaScript has the comments and empty lines of TypeScript, and no types', async () => {
  const { module, commonJs } = (await javaScriptOf(`import express, { type Request } from 'express'
import { perMinute as quota, type Limit } from 'sluice' // in memory
import type { Plan } from './plan.ts'
import { type Other } from './other.ts'
import './effect.js'

/** A customer. */
interface Customer {
  readonly plan: Plan
}

// Another comment.
export const limitOf = (request: Request): Limit => quota((request.body as Customer).plan!.quota) // → 1
`))!
  const rest = `
// Another comment.
`
  expect(module).toBe(`import express from 'express'
import { perMinute as quota } from 'sluice' // in memory
import './effect.js'
${rest}export const limitOf = (request) => quota(request.body.plan.quota) // → 1
`)
  expect(commonJs).toBe(`const express = require('express')
const { perMinute: quota } = require('sluice') // in memory
require('./effect.js')
${rest}const limitOf = (request) => quota(request.body.plan.quota) // → 1

module.exports = { limitOf }
`)
})
