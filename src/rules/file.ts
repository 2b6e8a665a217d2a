import { fileURLToPath } from 'node:url'
import type { Duration } from '../limits/limit.ts'
import { milliseconds, refuse } from '../util/validate.ts'
import { FileWatch } from './file-watch.ts'
import type { Rules } from './rules.ts'
import { type SourceOptions, startRules } from './start.ts'
import { formatOf } from './text/text.ts'

/** Options of `rulesFile`. */
export interface FileOptions<Input> extends SourceOptions<Input> {
  /**
   * How often the file is read again where the system does not report changes, such as on a network drive. Default `'2s'`. It is
   * also how soon another target of a link elsewhere, or a replaced directory, is noticed.
   */
  readonly pollInterval?: Duration
}

/**
 * Rules from a file: JSON if its name ends in `.json`, YAML if it ends in `.yaml` or `.yml`. A change takes effect about 0.2
 * seconds after the last write: a rename over the file, a write in place, a file that is deleted and made again, a link to another
 * file. A file with mistakes, or none, is reported after 1 second, and the current rules stay.
 *
 * Replace the file by a rename. A file that is written in place and pauses for longer is read half-written.
 *
 * The watch does not keep the process running. `rules.close()` ends it.
 *
 * Rejects with `INVALID_RULES` or `RULES_UNREACHABLE` if there are no rules at the start and no `fallback`, `INVALID_OPTION`,
 * `UNKNOWN_OPTION`. JSON may have 1 MiB, YAML 128 KiB.
 * @example
 * const rules = await rulesFile('rules.yaml', {
 *   attributes: (request: express.Request) => ({ tenant: request.get('x-tenant') }),
 * })
 * app.use(rateLimit({ rules, store }))
 */
export async function rulesFile<Input = unknown>(
  path: string | URL,
  options: FileOptions<Input> = {},
): Promise<Rules<Input>> {
  const file = path instanceof URL ? fileURLToPath(path) : path
  const format = typeof file === 'string' ? formatOf(file) : undefined
  if (format === undefined) refuse('rulesFile', 'the name of a file that ends in .json, .yaml or .yml', path)
  const { pollInterval = '2s', ...rest } = options
  const interval = milliseconds('pollInterval', pollInterval)
  return startRules(rest, (feed) => {
    const watch = new FileWatch(file, format, interval, feed)
    watch.start()
    return () => watch.stop()
  })
}
