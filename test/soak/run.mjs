// `npm run soak`: loads one Redis from several processes for some minutes, with faults, changes of quotas, refunds and settlements. It checks
// that no key was admitted more than a perfect limiter and the documented allowance admit, that each decision came within its
// deadline, and that memory stays flat. Exit code 1 if not.
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { DEADLINE } from './limiters.mjs'
import { soak } from './soak.mjs'
import { megabytes, problemsOf } from './verdict.mjs'

const dist = fileURLToPath(new URL('../../dist', import.meta.url))
const options = { minutes: { type: 'string', default: '3' }, home: { type: 'string', default: dist } }

function printTimes(title, histogram) {
  const { total, p50, p99, p999, longest } = histogram.summary()
  const figures = [p50, p99, p999, longest].map((ms) => ms.toFixed(1).padStart(9)).join('')
  console.log(`  ${title.padEnd(16)}${total.toLocaleString('en').padStart(12)}${figures}`)
}

function printAdmitted(used) {
  console.log('\nThe largest share of its allowance that a key was admitted, and the number of checks')
  for (const [place, { keys, most }] of [...used].toSorted(([one], [other]) => one.localeCompare(other)))
    console.log(`  ${place.padEnd(38)}${`${(100 * most).toFixed(0)} %`.padStart(6)}${String(keys).padStart(8)}`)
}

/** How long decisions took beyond their deadline, and how late the event loop was meanwhile. */
function printLate({ late, longestLag }) {
  console.log(`  The event loops were late by ${longestLag.toFixed(1)} ms at most.`)
  if (late.length === 0) return console.log(`  No decision took longer than ${DEADLINE} + 10 ms.`)
  const [worst] = late.toSorted((one, other) => other.ms - other.lag - (one.ms - one.lag))
  const figures = `${worst.ms.toFixed(1)} ms, in which the event loop was late for ${worst.lag.toFixed(1)} ms`
  console.log(`  ${late.length} decisions took longer than ${DEADLINE} + 10 ms. The worst one took ${figures}.`)
}

/** Twelve of many samples, the first and the last among them. */
function some(samples) {
  const last = samples.length - 1
  return samples.length <= 12 ? samples : Array.from({ length: 12 }, (_, i) => samples[Math.round((i * last) / 11)])
}

function printRun({ fleet, heaps, admitted }) {
  console.log(`\nms per decision           decisions   median      99 %    99.9 %  longest`)
  printTimes('by Redis', fleet.redis)
  printTimes('without Redis', fleet.local)
  printLate(fleet)
  console.log(`\n${fleet.adjusted} refunds and settlements, ${fleet.notAdjusted} rejected because Redis did not answer`)
  for (const [i] of (heaps[0] ?? []).entries())
    console.log(
      `heap of process ${i + 1}: ${some(heaps)
        .map((each) => megabytes(each[i]))
        .join(', ')}`,
    )
  printAdmitted(admitted.used)
}

const { values } = parseArgs({ options })
const seconds = 60 * Number(values.minutes)
if (!(seconds > 0 && seconds <= 3600))
  throw new Error(`--minutes: expected a number up to 60, got ${String(values.minutes)}`)
const run = await soak({ home: values.home, seconds, log: console.log })
printRun(run)
const problems = problemsOf(run)
console.log(problems.length === 0 ? '\nAll is well.' : `\nWrong:\n${problems.map((each) => `  ${each}`).join('\n')}`)
process.exitCode = problems.length === 0 ? 0 : 1
