import { availableParallelism, cpus, totalmem } from 'node:os'

/** What the numbers were measured on, in general terms. */
export function machine() {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${process.platform} ${process.arch}`,
    node: process.version,
  }
}
