import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { figure } from '../lib/experiment.mjs'
import { ask } from '../lib/processes.mjs'
import { budget, oursIn, row } from '../lib/row.mjs'

const WORKER = new URL('./rules.worker.mjs', import.meta.url)
const ONE = 'one policy'
const OTHERS = ['a thousand policies', 'ten thousand overrides']
/** What a client sends to keep the server busy. The worker has their texts. */
const HOSTILE = [
  '16 kB of slashes',
  '16 kB of percent signs',
  '16 kB of invalid UTF-8',
  '16 kB of dots',
  '16 kB of semicolons',
  '16 kB of backslashes',
]

/** A request under large documents of rules, compared with a document of one policy. Earlier builds have no rules. */
export function rulesTimes({ builds, core, rounds, ms }) {
  const steps = builds.filter(hasRules).map(({ name, root }) => ({
    subject: name,
    measure: () => ask(WORKER, { root, ms }, { core }),
  }))
  return { title: 'rules', rounds, steps, rows: (samples) => (steps.length === 0 ? [] : rulesRows(samples)) }
}

function hasRules({ root }) {
  const manifest = join(root, 'package.json')
  return existsSync(manifest) && './rules' in JSON.parse(readFileSync(manifest, 'utf8')).exports
}

function rulesRows(samples) {
  const group = 'Rules, time per request'
  const plain = row({ group, title: ONE, unit: 'ns', values: figure(samples, ONE) })
  const large = OTHERS.map((title) => {
    const ours = samples[oursIn(samples)]
    const more = ours[title].map((ns, i) => ns - ours[ONE][i])
    const budgets = [budget('≤ 5 µs more than one policy', more, { atMost: 5000 })]
    return row({ group, title, unit: 'ns', values: figure(samples, title), budgets })
  })
  const hostile = HOSTILE.map((title) => {
    const budgets = [budget('≤ 1 ms', samples[oursIn(samples)][title], { atMost: 1_000_000 })]
    return row({ group, title, unit: 'ns', values: figure(samples, title), budgets })
  })
  return [plain, ...large, ...hostile]
}
