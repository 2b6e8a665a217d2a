/**
 * One small mistake: in `file`, `find` becomes `replace`. The tests of `scope` must fail.
 * @typedef {{ readonly files: readonly string[], readonly name?: string }} Scope  files or folders, and a pattern of test
 *   titles
 * @typedef {{ readonly file: string, readonly language: 'TypeScript' | 'Lua', readonly what: string, readonly find: string, readonly replace: string,
 *   readonly scope: Scope }} Mutation
 */

/** Returns a function that makes mutations of one file, for tests of one scope. */
export function inFile(file, scope, language = 'TypeScript') {
  return (what, find, replace) => ({ file, language, what, find, replace, scope })
}

/** Returns the text with the mutation in it. Throws if `find` is not in the text exactly once: the mutation is out of date. */
export function mutated(text, { file, what, find, replace }) {
  const times = text.split(find).length - 1
  if (times !== 1) throw new Error(`${file}: "${what}" replaces this text, which occurs ${times} times:\n${find}`)
  return text.replace(find, () => replace)
}
