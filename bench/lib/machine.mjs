import { availableParallelism, cpus, totalmem } from 'node:os'

/** What the figures were measured on, in general terms. */
export function machine() {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: `${availableParallelism()} cores`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${process.platform} ${process.arch}`,
    node: `Node ${process.version}`,
  }
}

/** The core for the process that is measured, and the core for the one it talks to; none on a single core. */
export function cores() {
  const several = availableParallelism() > 1
  return { node: several ? 0 : undefined, other: several ? 1 : undefined }
}
