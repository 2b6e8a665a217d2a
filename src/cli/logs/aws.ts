import { quoteFrom, requestLine } from './quoted.ts'
import { isTime, NO_REQUEST, NO_TIME, OTHER_FORMAT, type Parse, type ParseSettings } from './request.ts'
import { isoTime } from './time.ts'

/** Fields of an application load balancer between the user agent and the time at which the request was received. */
const BEFORE_CREATION = 7

/**
 * Reads the logs of application load balancers. The time is `request_creation_time`, when the request was received.
 * https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
 */
export function albParser(options: ParseSettings): Parse {
  return (line) => parseAws(line, 3, options, true)
}

/**
 * Reads the logs of classic load balancers. The time is when the request was received.
 * https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html
 */
export function elbParser(options: ParseSettings): Parse {
  return (line) => parseAws(line, 2, options, false)
}

/** @param clientAt the number of the field with the address of the client, from 0 */
function parseAws(
  line: string,
  clientAt: number,
  { wantsHeaders }: ParseSettings,
  isApplication: boolean,
): ReturnType<Parse> {
  const quote = quoteFrom(line, 0)
  if (quote === -1) return OTHER_FORMAT
  const before = line.slice(0, quote).split(' ', 16)
  const client = before[clientAt] ?? ''
  // Both have nine fields from the address on, and a space before the quotation mark.
  if (before.length !== clientAt + 10 || (client !== '-' && !/^[\d.:[\]A-Fa-f]{3,64}$/.test(client)))
    return OTHER_FORMAT
  const end = quoteFrom(line, quote + 1)
  const third = end === -1 ? -1 : quoteFrom(line, end + 1)
  const fourth = third === -1 ? -1 : quoteFrom(line, third + 1)
  if (fourth === -1) return 'cut off'
  const written = isApplication ? fieldFrom(line, fourth + 1, BEFORE_CREATION) : before[0]!
  const time = isoTime(written, undefined)
  if (!isTime(time)) return NO_TIME
  const found = requestLine(line, quote + 1, end)
  if (found === undefined) return NO_REQUEST
  const agent = line.slice(third + 1, fourth)
  return {
    time,
    ip: client === '-' ? '' : client,
    user: '',
    method: found.method,
    path: pathOf(found.path),
    headers: wantsHeaders && agent !== '-' ? { 'user-agent': agent } : undefined,
    fields: undefined,
  }
}

/** Returns a field by its number, where some fields are in quotation marks. */
function fieldFrom(line: string, from: number, number: number): string {
  let at = from
  for (let i = 0; i <= number; i++) {
    if (line.charCodeAt(at) !== 32) return ''
    const isQuoted = line.charCodeAt(at + 1) === 34
    const close = isQuoted ? quoteFrom(line, at + 2) + 1 : line.indexOf(' ', at + 1)
    if (close <= 0) return i === number ? line.slice(at + 1) : ''
    if (i === number) return line.slice(at + 1, close)
    at = close
  }
  return ''
}

/** Returns what the application receives: the path of `http://www.example.com:80/a`. */
function pathOf(url: string): string {
  const authority = url.indexOf('://')
  const slash = authority === -1 ? -1 : url.indexOf('/', authority + 3)
  return slash === -1 ? (authority === -1 ? url : '/') : url.slice(slash)
}
