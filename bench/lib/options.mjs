import { parseArgs } from 'node:util'

export const PARTS = ['memory', 'server', 'redis', 'leases', 'databases', 'machine', 'service', 'replay']

const HELP = `npm run bench -- [part …] [options]

parts       ${PARTS.join(', ')}, all. Default: all.
            docs: measures nothing and writes the last results into docs/

--against   a git ref or a folder with another build of the package: both builds are measured in one interleaved run
--quick     short runs: the same rows with more noise, kept apart in bench/results/quick.json
--only      only the experiments whose title contains this text; the results are not kept
--write     writes the results into docs/internals/performance.md
--help      this text

Exit code 1: a budget is missed, or a row of a whole run is slower than in the other build. Exit code 2: something was not
measured.`

const OPTIONS = {
  against: { type: 'string' },
  quick: { type: 'boolean', default: false },
  only: { type: 'string' },
  write: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
}

/**
 * What to measure, and how.
 * @typedef {{ parts: string[], against: string | undefined, quick: boolean, only: string | undefined, write: boolean }} Options
 * @param {string[]} args
 * @returns {Options | undefined} undefined after `--help` or a wrong command line, which sets exit code 2
 */
export function readOptions(args) {
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
    const unknown = positionals.find((each) => !['docs', 'all', ...PARTS].includes(each))
    if (unknown !== undefined) throw new Error(`Unknown part ${JSON.stringify(unknown)}`)
    if (!values.help) return chosen(positionals, values)
    console.log(HELP)
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`)
    process.exitCode = 2
  }
  return undefined
}

function chosen(positionals, { against, quick, only, write }) {
  const docs = positionals.includes('docs')
  const all = positionals.includes('all') || positionals.length === 0
  const parts = PARTS.filter((part) => all || positionals.includes(part))
  return { parts, against, quick, only, write: write || docs }
}
