import { isCharge, type LimitStatus } from '../../stores/store.ts'

/**
 * Returns the names of limits in the headers of one response, where each name may appear once. A name that several limits have
 * gets the name of the limiter before it, such as `api:burst`, and a number if that is not enough. Returns `undefined` when all
 * names differ already. The result has a name for each limit, in the same order.
 */
export function distinctNames(limits: readonly LimitStatus[]): readonly string[] | undefined {
  if (!repeatsName(limits)) return undefined
  const shown = limits.filter(({ limit }) => limit.shadow !== true)
  const isRepeated = ({ limit }: LimitStatus): boolean =>
    shown.filter((other) => other.limit.name === limit.name).length > 1
  const taken = new Set(shown.filter((status) => !isRepeated(status)).map(({ limit }) => limit.name))
  return limits.map((status) => {
    if (status.limit.shadow === true || !isRepeated(status)) return status.limit.name
    const name = unused(prefixed(status), taken)
    taken.add(name)
    return name
  })
}

/** Returns true when two limits that headers show have the same name. */
export function repeatsName(limits: readonly LimitStatus[]): boolean {
  for (let i = 1; i < limits.length; i++) {
    const { limit } = limits[i]!
    if (limit.shadow === true) continue
    for (let j = 0; j < i; j++)
      if (limits[j]!.limit.name === limit.name && limits[j]!.limit.shadow !== true) return true
  }
  return false
}

/** Returns the name of the limiter of a status, or `undefined` for a limiter that is not from this package. */
export function limiterNameOf(status: LimitStatus): string | undefined {
  return isCharge(status) ? status.policy.limiter : undefined
}

function prefixed(status: LimitStatus): string {
  const limiter = limiterNameOf(status)
  return limiter === undefined ? status.limit.name : `${limiter}:${status.limit.name}`
}

function unused(name: string, taken: ReadonlySet<string>): string {
  let free = name
  for (let number = 2; taken.has(free); number++) free = `${name}:${number}`
  return free
}
