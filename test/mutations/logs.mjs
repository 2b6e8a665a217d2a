import { inFile } from './mutation.mjs'

const reading = (file) => inFile(`src/cli/logs/${file}.ts`, { files: ['test/cli/logs'] })
const replay = (file) => inFile(`src/cli/replay/${file}.ts`, { files: ['test/cli/replay.test.ts'] })
const bytes = reading('bytes')
const lines = reading('lines')
const reorder = reading('reorder')
const ordered = reading('ordered')
const clf = reading('clf')
const json = reading('json')
const exactLog = replay('exact-log')
const limiters = replay('limiters')

/** Small mistakes in reading and replaying logs. */
export const logs = [
  ordered('releases entries of one time in any order', 'difference === 0 && one.line < other.line', 'difference === 0'),
  reorder('takes late lines', 'if (time < Math.max(', 'if (time < Math.min('),
  ordered('keeps released entries', 'this.#entries[this.#head++] = undefined', 'this.#head++'),
  bytes('reads on while gzip data is decompressed', 'yield Buffer.from(chunk)', 'yield chunk'),
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
  json('counts the lines of an application as requests', 'if (responseTime === undefined) return NO_REQUEST', ''),
  exactLog('counts a request for as long as its window and no less', '! <= until', '! < until'),
  limiters('decides at the time of the request before', '    set(entry.request.time)\n', ''),
]
