import { headerConfig, headerWriter } from '../../src/http/headers/styles.ts'
import type { HeaderStyle } from '../../src/http/headers/types.ts'
import { createLimiter, type Limit } from '../../src/index.ts'

/** Returns the headers of one decision under a limit, by name. */
export function headersOf(limits: Limit, headers: HeaderStyle = 'standard'): Record<string, string> {
  const decision = createLimiter({ keyer: () => 'k', limits }).consume({})
  const written: Record<string, string> = {}
  headerWriter(headerConfig({ headers }))(decision, 0, (name, value) => (written[name] = value))
  return written
}
