import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

export function heapUsed(): number {
  collect()
  return process.memoryUsage().heapUsed
}

/** Returns a key of 40 characters that is a part of a longer text, as of a header. */
export function headerPart(i: number): string {
  return Buffer.from(`${i} `.padEnd(4000, 'x')).toString('latin1').slice(0, 40)
}
