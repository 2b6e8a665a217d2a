import { inFile } from './mutation.mjs'

const inProcess = { files: ['test/service'] }
const service = inFile('src/service/service.ts', inProcess)
const questions = inFile('src/service/questions.ts', inProcess)
const token = inFile('src/service/token.ts', inProcess)
const handler = inFile('src/service/index.ts', inProcess)
const metrics = inFile('src/metrics/prometheus/text.ts', inProcess)
const server = inFile('src/cli/serve/server.ts', { files: ['test/cli/serve.test.ts'] })
const command = inFile('src/cli/serve/command.ts', { files: ['test/cli/exit-codes.test.ts'] })

/** Small mistakes in the service. */
export const services = [
  service('answers without a token', "if (!this.#isKnown(textIn(headers['authorization']))) return unauthorized()", ''),
  service('reads the status of a denial below /check', '...(status !== undefined && { status })', ''),
  service('shows the token to rules', '{ ...headers, authorization: undefined }', 'headers'),
  service('takes a body of any type', "if (!isJson(textIn(request.headers['content-type'])))", 'if (false)'),
  service('answers before the delay', 'if (delay > 0)', 'if (delay > 1e9)'),
  questions('takes misspelled fields', 'if (!names.includes(name))', 'if (name === undefined)'),
  questions('takes any address', 'clientAddress(found) === undefined', 'found === undefined'),
  questions('reads a forged path below /check', "const isHere = !below.startsWith('/')", 'const isHere = true'),
  questions('takes a status that is no denial', '/^[45]\\d\\d$/', '/^\\d\\d\\d$/'),
  token('takes a short token', 'each.length >= SHORTEST', 'each.length > 0'),
  token(
    'compares the last token alone',
    'if (isEqualText(sent, digest)) isFound = true',
    'isFound = isEqualText(sent, digest)',
  ),
  handler('reads a body of any size', 'length + value.length > most', 'length + value.length > 2 * most'),
  metrics('does not escape names of limits', `.replaceAll('"', '\\\\"')`, ''),
  server('waits for connections that have sent nothing', 'each.bytesRead === 0', 'each.bytesRead < 0'),
  server('deletes any file in its place', 'return isSocket && (await isRefused(path))', 'return isRefused(path)'),
  server('creates a socket file for everybody', 'process.umask(0o117)', 'process.umask(0)'),
  server('keeps connections while it ends', 'if (!server.listening) response.shouldKeepAlive = false', ''),
  command(
    'serves other machines without a token',
    "if ('socket' in address || isOfThisMachine(address.host))",
    'if (address)',
  ),
]
