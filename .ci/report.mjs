// Reads the reports of test runs for `run`.
//   node report.mjs failed REPORT      the files that may run once more. Exits with an error if there are too many, or a test is random.
//   node report.mjs count REPORT ...   how many tests passed, and how many failed
//   node report.mjs names REPORT ...   the tests that failed, each with the start of its error
import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** More files than this do not fail by chance. */
const MOST_FILES = 5

/** Characters of an error. One that names a seed and a counterexample fits. */
const MOST_TEXT = 2000

const [task, ...reports] = process.argv.slice(2)
const hasFailed = ({ status }) => status === 'failed'

/** The results of each file. Those of the second run replace those of the first. */
function filesOf(report) {
  const read = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).testResults : [])
  const again = read(`${report}-again`)
  const names = new Set(again.map(({ name }) => name))
  return [...read(report).filter(({ name }) => !names.has(name)), ...again]
}

if (task === 'failed') {
  const files = filesOf(reports[0]).filter(hasFailed)
  // Another run would replace the values that a seed names.
  const isRandom = files.some(({ assertionResults }) =>
    assertionResults.some((each) => hasFailed(each) && each.failureMessages.some((text) => /\bseed\b/.test(text))),
  )
  if (isRandom || files.length > MOST_FILES) process.exit(1)
  console.log(files.map(({ name }) => name).join(' '))
} else if (task === 'names') {
  for (const { name, message, assertionResults: tests } of reports.flatMap(filesOf).filter(hasFailed)) {
    console.log(`\nfailed: ${relative(process.cwd(), name)}`)
    // A file that does not load has a message and no tests.
    const failures = tests
      .filter(hasFailed)
      .map((each) => [each.fullName, ...each.failureMessages.slice(0, 1)].join('\n'))
    for (const text of failures.length > 0 ? failures : [message]) console.log(text.slice(0, MOST_TEXT))
  }
} else {
  let passed = 0
  let failed = 0
  for (const report of reports) {
    const files = filesOf(report)
    // A run without a report counts as one failure. So does a test file that does not load: it has no tests to count.
    if (files.length === 0) failed++
    for (const { status, assertionResults: tests } of files) {
      passed += tests.filter((each) => each.status === 'passed').length
      failed += tests.filter(hasFailed).length || Number(status === 'failed')
    }
  }
  console.log(passed, failed)
}
