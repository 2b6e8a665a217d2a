import { isIP } from 'node:net'
import { quoteFrom, requestLine, unescaped } from './quoted.ts'
import { type Headers, isTime, NO_REQUEST, NO_TIME, OTHER_FORMAT, type Parse, type ParseSettings } from './request.ts'
import { CLF_LENGTH, ClfTime } from './time.ts'

const HOST_AND_PORT = /^[^ ]+:\d{1,5}$/

/**
 * Reads the common and the combined log format of nginx, Apache, Traefik and morgan, and `vhost_combined` of Apache. What follows the
 * user agent is not read. The user may contain spaces and brackets, so the time is found from the first quotation mark backwards.
 */
export function clfParser({ wantsHeaders }: ParseSettings): Parse {
  const clock = new ClfTime()

  return function parseClf(line) {
    const quote = quoteFrom(line, 0)
    const start = quote - CLF_LENGTH - 2
    if (start < 6 || line.charCodeAt(start - 1) !== 91 || line.charCodeAt(quote - 2) !== 93) return OTHER_FORMAT
    const client = clientFrom(line)
    const ipEnd = line.indexOf(' ', client)
    const identEnd = line.indexOf(' ', ipEnd + 1)
    if (identEnd === -1 || identEnd > start - 3) return OTHER_FORMAT
    const time = clock.read(line, start)
    if (!isTime(time)) return NO_TIME
    const end = quoteFrom(line, quote + 1)
    if (end === -1) return 'cut off'
    const found = requestLine(line, quote + 1, end)
    if (found === undefined) return NO_REQUEST
    return {
      time,
      ip: present(line.slice(client, ipEnd)),
      user: present(unescaped(line.slice(identEnd + 1, start - 2))),
      method: found.method,
      path: found.path,
      headers: wantsHeaders ? headersFrom(line, end + 1) : undefined,
      fields: undefined,
    }
  }
}

/**
 * Returns where the address of the client begins: after `host:port`, which `vhost_combined` of Apache writes before it. There the field
 * that follows is an address, and not the `-` of a client without `identd`.
 */
function clientFrom(line: string): number {
  const end = line.indexOf(' ')
  if (line.charCodeAt(end + 1) === 45 || !HOST_AND_PORT.test(line.slice(0, end))) return 0
  return isIP(line.slice(0, end)) === 0 ? end + 1 : 0
}

/** Reads the referrer and the user agent, if the line has them. */
function headersFrom(line: string, from: number): Headers | undefined {
  const first = quoteFrom(line, from)
  const second = first === -1 ? -1 : quoteFrom(line, first + 1)
  const third = second === -1 ? -1 : quoteFrom(line, second + 1)
  const fourth = third === -1 ? -1 : quoteFrom(line, third + 1)
  if (fourth === -1) return undefined
  return named(unescaped(line.slice(first + 1, second)), unescaped(line.slice(third + 1, fourth)))
}

function named(referer: string, agent: string): Headers {
  return { ...(referer !== '-' && { referer }), ...(agent !== '-' && { 'user-agent': agent }) }
}

function present(text: string): string {
  return text === '-' ? '' : text
}
