import { quoteFrom, requestLine, unescaped } from './quoted.ts'
import { type Headers, isTime, NO_REQUEST, NO_TIME, OTHER_FORMAT, type Parse, type ParseSettings } from './request.ts'
import { CLF_LENGTH, ClfTime } from './time.ts'

/**
 * Reads the common and the combined log format of nginx, Apache, Traefik and morgan. What follows the user agent is not read. The
 * user may contain spaces and brackets, so the time is found from the first quotation mark backwards.
 */
export function clfParser({ wantsHeaders }: ParseSettings): Parse {
  const clock = new ClfTime()

  return function parseClf(line) {
    const quote = quoteFrom(line, 0)
    const start = quote - CLF_LENGTH - 2
    if (start < 6 || line.charCodeAt(start - 1) !== 91 || line.charCodeAt(quote - 2) !== 93) return OTHER_FORMAT
    const ipEnd = line.indexOf(' ')
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
      ip: present(line.slice(0, ipEnd)),
      user: present(unescaped(line.slice(identEnd + 1, start - 2))),
      method: found.method,
      path: found.path,
      headers: wantsHeaders ? headersFrom(line, end + 1) : undefined,
      fields: undefined,
    }
  }
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
