import { SluiceError } from '../../util/errors.ts'
import { nearest } from '../../util/validate.ts'
import { albParser, elbParser } from './aws.ts'
import { clfParser } from './clf.ts'
import { caddyParser, fieldsParser, morganParser, pinoParser, traefikParser } from './json.ts'
import { OTHER_FORMAT, type Parse, type ParseSettings } from './request.ts'

const PARSERS: Readonly<Record<string, (options: ParseSettings) => Parse>> = {
  clf: clfParser,
  alb: albParser,
  elb: elbParser,
  caddy: caddyParser,
  traefik: traefikParser,
  'pino-http': pinoParser,
  morgan: morganParser,
  json: fieldsParser,
}

/** Other names of formats, as programs and their documents use them. */
const SYNONYMS: Readonly<Record<string, string>> = { common: 'clf', combined: 'clf', nginx: 'clf', apache: 'clf' }

/** The names of the formats that `--format` takes. */
export const FORMATS: readonly string[] = [...Object.keys(PARSERS), ...Object.keys(SYNONYMS)]

/** Returns a valid name of a format. Throws `INVALID_OPTION`. */
export function formatNamed(name: string): string {
  const known = Object.hasOwn(SYNONYMS, name) ? SYNONYMS[name]! : name
  if (Object.hasOwn(PARSERS, known)) return known
  const near = nearest(name, FORMATS)
  const hint = near === undefined ? '' : `. Did you mean ${near}?`
  throw new SluiceError('INVALID_OPTION', `--format: expected one of ${FORMATS.join(', ')}, got ${name}${hint}`)
}

/** The parser of one file. Without a given format, the first line that a parser knows decides. */
export class Format {
  /** The name of the format, once it is known. */
  name: string | undefined
  readonly #options: ParseSettings
  readonly #candidates: readonly (readonly [name: string, parse: Parse])[]
  #parse: Parse | undefined

  /** @param name a valid name, or `undefined` to detect it */
  constructor(name: string | undefined, options: ParseSettings) {
    this.#options = options
    this.name = name
    this.#parse = name === undefined ? undefined : PARSERS[name]!(options)
    this.#candidates = this.#parse === undefined ? this.#all() : []
  }

  parse(line: string): ReturnType<Parse> {
    return this.#parse === undefined ? this.#detect(line) : this.#parse(line)
  }

  #detect(line: string): ReturnType<Parse> {
    let reason: string = OTHER_FORMAT
    for (const [name, parse] of this.#candidates) {
      const found = parse(line)
      if (typeof found === 'object') {
        this.name = name
        this.#parse = parse
        return found
      }
      if (found !== OTHER_FORMAT) reason = found
    }
    return reason
  }

  /** General JSON lines are detected only if the option `--time` says which field is the time. */
  #all(): [string, Parse][] {
    const names = Object.keys(PARSERS).filter((name) => name !== 'json')
    const tried = this.#options.fields.has('time') ? ['json'] : names
    return tried.map((name) => [name, PARSERS[name]!(this.#options)])
  }
}
