import { inFile } from './mutation.mjs'

const reading = (file) => inFile(`src/cli/logs/${file}.ts`, { files: ['test/cli/logs'] })
const replay = (file) => inFile(`src/cli/replay/${file}.ts`, { files: ['test/cli/replay.test.ts'] })
const commands = (file) => inFile(`src/cli/${file}.ts`, { files: ['test/cli/exit-codes.test.ts'] })
const outcome = commands('print')
const connect = commands('connect')
const page = inFile('src/cli/replay/html.ts', {
  files: ['test/cli/replay-page.test.ts', 'test/cli/replay-html.test.ts'],
})
const plots = inFile('src/cli/replay/html.ts', { files: ['test/cli/replay-page.test.ts'] })
const replayText = replay('command')
const topTable = inFile('src/cli/print.ts', { files: ['test/cli/top.test.ts'], name: 'any number of rows' })
const program = inFile('src/cli/inspect.ts', { files: ['test/cli/cli.test.ts'] })
const bytes = reading('source')
const lines = reading('source')
const reorder = reading('reorder')
const sorting = inFile('src/cli/logs/read.ts', { files: ['test/cli/logs/sorting.test.ts'] })
const clf = reading('formats')
const json = reading('formats')
const limiters = replay('replay')

const replayed = inFile('src/cli/replay/replay.ts', { files: ['test/cli/replay.test.ts'] })

/** Small mistakes in reading and replaying logs. */
export const logs = [
  replayed('compares slots with a window', ' && renew === undefined,', ','),
  replayed(
    'holds slots for ever',
    'if (now >= first.end) first.limiter.release(first.decision)',
    'if (now >= first.end) continue',
  ),
  replayed('renews no slots of long requests', 'first.limiter.renew(first.decision)\n', '\n'),
  replayed(
    'replays slots without durations',
    'if (took === undefined) throw noEnds(decision)',
    'if (took === undefined) return',
  ),
  reorder(
    'releases entries of one time in any order',
    '.splice(at).concat(this.#added)',
    '.splice(at).concat(this.#added).reverse()',
  ),
  reorder('takes late lines', 'if (time < Math.max(', 'if (time < Math.min('),
  reorder(
    'puts early entries last',
    'waiting[at - 1]!.request.time > earliest',
    'waiting[at - 1]!.request.time > Infinity',
  ),
  bytes(
    'reads over the first byte',
    'found = Buffer.concat([found, value])',
    'found = found.length === 0 ? value : Buffer.concat([found, value])',
  ),
  lines(
    'reads a part of a line as a line',
    'const isStart = this.#rest.length === 0 && !this.#skips',
    'const isStart = true',
  ),
  clf('finds the time from the left', 'const start = quote - CLF_LENGTH - 2', "const start = line.indexOf('[') + 1"),
  clf('takes the virtual host for the client', '? end + 1 : 0', '? 0 : 0'),
  clf('takes an IPv6 address for a host and a port', 'isIP(line.slice(0, end)) === 0 ?', 'end > 0 ?'),
  json('counts the lines of an application as requests', '(ms === undefined ? undefined', '(ms === undefined ? 0'),
  json(
    'takes lines of other formats',
    'for (const mark of marks) if (mark(fields) === undefined) return OTHER_FORMAT',
    '',
  ),
  json('reads the last of several fields', 'found ??= fieldAt(fields, path)', 'found = fieldAt(fields, path)'),
  sorting('takes a log of which most is omitted', 'const MOST_OMITTED = 0.01', 'const MOST_OMITTED = 1'),
  sorting('reads a pipe as a file', "if (path === '-') return false", ''),
  sorting('omits the late lines of files', 'lateIn(first.sources) === 0', 'true'),
  sorting('reads again with the same window', 'delays?.get(path) ?? 0', '0'),
  replayText('prints the table of a comparison below', 'decisions === undefined ? [...table', 'false ? [...table'),
  page('shows a table that is wider than a phone', '@media (max-width: 40rem)', '@media (max-width: 4rem)'),
  page('shows red against green', '--plain: #0072b2; --striped: #d55e00;', '--plain: #2f7d4f; --striped: #c8402f;'),
  plots('has no legend', "${legend('admitted', verb)}", ''),
  plots('has no unit', 'requests per ${roughDuration(width)}', 'requests'),
  topTable(
    'passes all rows as arguments',
    'rows.reduce((most, row) => Math.max(most, charactersOf(row[i]!).length), 0)',
    'Math.max(...rows.map((row) => charactersOf(row[i]!).length))',
  ),
  outcome('takes a number that is out of range for a failure', "  'OUT_OF_RANGE',\n", ''),
  outcome('takes an unknown option for a failure', ' || isParsing', ''),
  connect(
    'decodes a password that is not encoded',
    '    return undefined\n  }\n}\n\nasync function installed',
    '    return text\n  }\n}\n\nasync function installed',
  ),
  program('has no hint for a key without a state', 'found.limits.length > 0', 'found.limits.length >= 0'),
  limiters('decides at the time of the request before', '    this.#moveTo(time)\n', ''),
]
