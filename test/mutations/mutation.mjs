/**
 * A slip that somebody could make: in `file`, `find` is replaced, and the tests of `scope` have to notice.
 * @typedef {{ readonly files: readonly string[], readonly name?: string }} Scope  files or folders, and a pattern of test names
 * @typedef {{ readonly file: string, readonly language: 'TypeScript' | 'Lua', readonly what: string, readonly find: string, readonly replace: string,
 *   readonly scope: Scope }} Mutation
 */

/** Mutations of one file, all noticed by the same tests. */
export function inFile(file, scope, language = 'TypeScript') {
  return (what, find, replace) => ({ file, language, what, find, replace, scope })
}

/** The text with the mutation in it. A mutation that does not fit exactly once is out of date, and an error. */
export function mutated(text, { file, what, find, replace }) {
  const times = text.split(find).length - 1
  if (times !== 1)
    throw new Error(`${file}: "${what}" is to replace this once, and it is there ${times} times:\n${find}`)
  return text.replace(find, () => replace)
}
