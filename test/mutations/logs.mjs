import { inFile } from './mutation.mjs'

const reading = (file) => inFile(`src/cli/logs/${file}.ts`, { files: ['test/cli/logs'] })
const replay = (file) => inFile(`src/cli/replay/${file}.ts`, { files: ['test/cli/replay.test.ts'] })
const reorder = reading('reorder')
const clf = reading('clf')
const json = reading('json')
const exactLog = replay('exact-log')
const limiters = replay('limiters')

/** Small mistakes in reading and replaying logs. */
export const logs = [
  reorder('releases entries of one time in any order', 'difference === 0 && one.line < other.line', 'difference === 0'),
  reorder('takes late lines', 'if (time < Math.max(', 'if (time < Math.min('),
  clf('finds the time from the left', 'const start = quote - CLF_LENGTH - 2', "const start = line.indexOf('[') + 1"),
  clf('takes the virtual host for the client', '? end + 1 : 0', '? 0 : 0'),
  clf('takes an IPv6 address for a host and a port', 'isIP(line.slice(0, end)) === 0 ?', 'end > 0 ?'),
  json('counts the lines of an application as requests', 'if (responseTime === undefined) return NO_REQUEST', ''),
  exactLog('counts a request for as long as its window and no less', '! <= until', '! < until'),
  limiters('decides at the time of the request before', '    set(entry.request.time)\n', ''),
]
