import type { Report } from '../../src/cli/replay/replay.ts'
import { Tally, type TallyReport } from '../../src/cli/replay/tally.ts'

const START = Date.parse('2026-11-22T11:00:00Z')
/** A key that runs a script where it is not escaped. */
export const HOSTILE = `"><script>document.title = 'run'</script><img src=x onerror="document.title='run'">\u202e`

function tally(): TallyReport {
  const made = new Tally(false, 100)
  for (let i = 0; i < 500; i++) made.add(i % 3 === 0 ? HOSTILE : '192.0.2.1', START + i * 1000, i % 5 !== 0)
  return made.report()
}

const limits = [HOSTILE, 'gcra 100/1m'].map((limit) =>
  Object.assign(tally(), { limit, exact: { compared: 500, tooStrict: 3, tooLenient: 10 } }),
)
/** A report with hostile keys. */
export const report: Report = {
  log: {
    lines: 501,
    requests: 500,
    from: new Date(START).toISOString(),
    until: new Date(START + 500_000).toISOString(),
    files: [{ file: 'access.log', format: 'clf' }],
    unread: [{ reason: 'another format', lines: 1, samples: [{ file: 'access.log', line: 7, text: HOSTILE }] }],
    notes: [],
  },
  decisions: tally(),
  limits,
  notes: [HOSTILE],
}
