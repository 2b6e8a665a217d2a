// Do the tests notice when somebody slips? Applies one small mistake after another to a copy of this repository and runs the
// tests that should notice. `npm run mutations -- trial` tries those of files whose path has `trial` in it.
import { lua } from './lua.mjs'
import { failure } from './suite.mjs'
import { Tree } from './tree.mjs'
import { typescript } from './typescript.mjs'

const wanted = process.argv.slice(2)
const chosen = (list) => list.filter(({ file }) => wanted.length === 0 || wanted.some((each) => file.includes(each)))
const mutations = [...chosen(typescript), ...chosen(lua)]

const tree = new Tree()
let survivors = 0
try {
  for (const each of mutations) tree.verify(each)
  await verifyUnchanged()
  console.log('| file | mistake | noticed by |\n| --- | --- | --- |')
  for (const each of mutations) {
    const test = await tree.during(each, () => failure(tree.folder, each.scope))
    if (test === undefined) survivors++
    console.log(row(each, test))
  }
} finally {
  tree.remove()
}
console.error(`${mutations.length} mistakes, ${survivors} not noticed`)
process.exitCode = survivors === 0 ? 0 : 1

/** Tests that fail by themselves notice nothing. */
async function verifyUnchanged() {
  const scopes = new Map(mutations.map(({ scope }) => [JSON.stringify(scope), scope]))
  for (const scope of scopes.values()) {
    const test = await failure(tree.folder, scope)
    if (test !== undefined) throw new Error(`Without any mistake a test fails: ${test}`)
  }
}

function row({ file, what }, test) {
  const where =
    lua.some((each) => each.file === file && each.what === what) && !file.includes('redis') ? `${file}, Lua` : file
  return `| ${where} | ${what} | ${test === undefined ? '**nothing**' : test.replaceAll('|', '\\|')} |`
}
