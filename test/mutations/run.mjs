// Do the tests notice when somebody slips? Applies one small mistake after another to a copy of this repository and runs the
// tests that should notice. `npm run mutations -- trial` tries those of files whose path has `trial` in it; `--record` puts
// the table of all into test/README.md.
import { http } from './http.mjs'
import { lua } from './lua.mjs'
import { record, row, table } from './report.mjs'
import { failure } from './suite.mjs'
import { Tree } from './tree.mjs'
import { typescript } from './typescript.mjs'

const args = process.argv.slice(2)
const wanted = args.filter((each) => each !== '--record')
const chosen = ({ file }) => wanted.length === 0 || wanted.some((each) => file.includes(each))
const mutations = [...typescript, ...http, ...lua].filter(chosen)

const tree = new Tree()
const rows = []
let survivors = 0
try {
  for (const each of mutations) tree.verify(each)
  await verifyUnchanged()
  for (const each of mutations) {
    const test = await tree.during(each, () => failure(tree.folder, each.scope))
    if (test === undefined) survivors++
    rows.push(row(each, test))
    console.error(rows.at(-1))
  }
} finally {
  tree.remove()
}
if (args.includes('--record') && wanted.length === 0) await record(rows)
else console.log(table(rows))
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
