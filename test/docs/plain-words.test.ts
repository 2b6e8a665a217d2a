// Finds words that are archaic, or that readers of English as a second language stumble over: in the pages, in the code with its comments and
// messages, and in the titles of tests.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { allPages, readPage } from '../support/pages.ts'
import { root } from '../support/programs.ts'

/** Words, and what to write instead. */
const instead: readonly (readonly [word: RegExp, plain: string])[] = [
  [/\bunless told\b/i, 'by default'],
  [/\b(is|are|was|were|be|been|and|have|has) told\b/i, 'receives, is sent, is reported'],
  [/\btold (apart|of|from)\b/i, 'different, reported'],
  [/\bmend(s|ed)?\b/i, 'fix'],
  [/\byields\b/i, 'returns'],
  [/\b(whoever|whomever|whatsoever)\b/i, 'a client that'],
  [/\bbesides\b/i, 'also, in addition to'],
  [/\banew\b/i, 'again'],
  [/\bhearsay\b/i, 'forged'],
  [/\b(hitherto|henceforth|thereof|therein|whereof|withheld|lest)\b/i, 'a word of today'],
  [/\bone's own\b/i, 'your own, custom'],
  [/\bstands? (around|between|in|on|before|still)\b/i, 'is'],
  [/\bwhere (they|you|it) stands?\b/i, 'the remaining quota'],
  [/\bstorms? in\b/i, 'retry at the same moment'],
  [/\bin force\b/i, 'current'],
  [/\bfor as long as\b/i, 'while'],
  [/\b(gives?|gave|given|giving) (it |them |units |charges? )?back\b/i, 'refunds, returns, releases'],
  [/\bgoes on\b/i, 'continues'],
  [/\b(made-up|invented) keys?\b/i, 'random keys'],
  [/\block(s|ed)? (nobody|anybody|everybody)\b/i, 'no client, every client'],
  [/\btrusts? (nobody|anybody|everybody)\b/i, 'trusts no proxy, trusts every proxy'],
  [/\b(nothing|none) is held\b/i, 'there is no state'],
  [/\bin no time\b/i, 'never, at once'],
  [/\bas ever\b|\bnought\b|\bthereby\b|\bso that none\b/i, 'as before, zero, so'],
]

/** Words that only the pages refuse: code and titles may name values with them. */
const onPages: readonly (readonly [word: RegExp, plain: string])[] = [
  [/\b(nobody|anybody|everybody)\b(?!')/i, 'no client, every client'],
  [/\bof (your|its|their|our|one's) own\b(?! (step|default|limiter|document))/i, 'custom, separate, own'],
  [/\b(holds?|held) (the|a|an|all|no|its|their)\b/i, 'contains, stores, applies'],
  [/\bone (by one )?alone\b|\bby itself alone\b/i, 'only'],
]

/** Returns each word with its line and what to write instead. */
function unclearWords(text: string, words = instead): string[] {
  return text.split('\n').flatMap((line, i) =>
    words.flatMap(([word, plain]) => {
      const found = word.exec(line)?.[0]
      return found === undefined ? [] : [`line ${i + 1}: "${found}"; write: ${plain}`]
    }),
  )
}

function filesIn(folder: string): string[] {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  return names.filter((name) => name.endsWith('.ts')).map((name) => join(folder, name))
}

/** Returns the lines with the titles of tests. */
function titlesIn(code: string): string {
  return code
    .split('\n')
    .map((line) => (/\b(it|test|describe)(\.\w+(\(.*?\))?)*\(\s*['"`]/.test(line) ? line : ''))
    .join('\n')
}

describe('plain words', () => {
  it.each(allPages)('in %s', (page) => {
    expect(unclearWords(readPage(page), [...instead, ...onPages])).toEqual([])
  })

  it.each(['src', 'adapters', 'examples'])('in the code in %s/', (folder) => {
    const found = filesIn(folder).map((file) => [file, unclearWords(readFileSync(join(root, file), 'utf8'))] as const)
    expect(Object.fromEntries(found.filter(([, words]) => words.length > 0))).toEqual({})
  })

  it('in the titles of tests', () => {
    const found = filesIn('test').map(
      (file) => [file, unclearWords(titlesIn(readFileSync(join(root, file), 'utf8')))] as const,
    )
    expect(Object.fromEntries(found.filter(([, words]) => words.length > 0))).toEqual({})
  })

  it('are checked: an unclear word is found with its line', () => {
    expect(unclearWords('A limit.\nIt is 56 unless told.')).toEqual(['line 2: "unless told"; write: by default'])
    expect(titlesIn("const told = 1\nit.each(['a'])('is told', () => 1)")).toBe("\nit.each(['a'])('is told', () => 1)")
  })
})
