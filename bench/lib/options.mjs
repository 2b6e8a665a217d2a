import { parseArgs } from 'node:util'

export const PARTS = ['memory', 'server', 'redis']

const HELP = `npm run bench [-- [part …] [options]]

parts      ${PARTS.join(', ')}; all of them unless told
           docs: measures nothing, writes the last results into docs/

--quick    short runs: the same rows, more noise; kept apart, in bench/results/quick.json
--write    writes the results into docs/performance.md, with its plots
--only     rows of experiments whose title contains this text
--help     this text

It ends with 1 when a budget is missed by more than the measured spread, and with 2 when something could not be measured.`

/**
 * What to measure, and how long.
 * @typedef {{ parts: string[], quick: boolean, write: boolean, only: string | undefined }} Options
 * @param {string[]} args
 * @returns {Options | undefined} nothing when the command line asked for help, or could not be understood
 */
export function readOptions(args) {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        write: { type: 'boolean', default: false },
        only: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    })
    const unknown = positionals.find((each) => each !== 'docs' && !PARTS.includes(each))
    if (unknown !== undefined) throw new Error(`There is no part ${JSON.stringify(unknown)}`)
    if (!values.help) return chosen(positionals, values)
    console.log(HELP)
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`)
    process.exitCode = 2
  }
  return undefined
}

function chosen(positionals, { quick, write, only }) {
  const docs = positionals.includes('docs')
  const named = PARTS.filter((part) => positionals.includes(part))
  return { parts: named.length > 0 || docs ? named : PARTS, quick, write: write || docs, only }
}
