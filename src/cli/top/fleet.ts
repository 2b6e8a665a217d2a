import { readFleet } from '../../dashboard/fleet.ts'
import type { Sums } from '../../dashboard/state.ts'
import { addUp } from '../../dashboard/sums.ts'
import type { SharedTexts } from '../../stores/texts.ts'
import { roughDuration } from '../../util/duration.ts'
import { columns as aligned, inOneLine } from '../print.ts'
import { cut, type Page } from './screen.ts'

export interface FleetSums extends Sums {
  /** The number of texts that are not summaries of this version. */
  readonly unread: number
  /** True if there are more processes than are shown. */
  readonly isCut: boolean
}

/** Reads the texts of all processes. At most five seconds later they write every two seconds, as long as somebody reads. */
export async function fleetOf(texts: SharedTexts): Promise<FleetSums> {
  const { members, unread, isCut } = await readFleet(texts)
  return { ...addUp(members, Date.now()), unread, isCut }
}

export function fleetPage(sums: FleetSums): Page {
  const { processes } = sums
  const title = processes.length === 1 ? '1 process' : `${processes.length} processes`
  return { title, lines: (width) => linesOf(sums).map((line) => cut(inOneLine(line), width)) }
}

const STORES = { '': '–', healthy: 'answers', slow: 'too late', away: 'away' }

function linesOf({ now, processes, series, denied, stores, rules, unread, isCut }: FleetSums): string[] {
  if (processes.length === 0 && unread === 0)
    return ['No process with a dashboard has written here in the last 45 seconds.']
  const members = processes.map(({ host, pid, since, age, isLost, memory, rates, store, rules: versions }) => [
    `${host} ${pid}`,
    ...(isLost ? ['–', '–', '–'] : rates.map(rateText)),
    STORES[store],
    versions || '–',
    `${Math.round(memory / 1e6)} MB`,
    roughDuration(now - since),
    `${isLost ? 'lost, ' : ''}${Math.round(age / 1000)} s ago`,
  ])
  const limits = series.map(({ limiter, limit, rates, words }) => {
    const name = limiter === '' ? (limit === '' ? 'all requests' : 'all further limits') : `${limiter} / ${limit}`
    return [name, ...rates.map(rateText), words]
  })
  const keys = denied.map(({ key, limiter, limit, count, error }) => [
    key === '' ? '(no key)' : key,
    `${limiter} / ${limit}`,
    error > 0 ? `${count - error} to ${count}` : String(count),
  ])
  return [
    ...table(['process', ...PER_SECOND, 'store', 'rules', 'memory', 'runs for', 'written'], members, 3),
    ...table(['limit', ...PER_SECOND, 'what it is'], limits, 3),
    ...(keys.length > 0 ? table(['denied in ten minutes', 'limit', 'denials'], keys, 0) : []),
    ...stores
      .filter(({ state }) => state !== 'healthy')
      .map((each) => `${each.name} is ${each.state} in ${each.processes}: ${each.reason}`),
    ...rules.filter(({ problem }) => problem !== '').map((each) => `rules, in ${each.processes}: ${each.problem}`),
    ...(unread > 0 ? [`${unread} more cannot be read: another version of the package may have written them.`] : []),
    ...(isCut ? ['There are more processes than these 100.'] : []),
  ]
}

const PER_SECOND = ['allowed/s', 'denied/s', 'shadow/s']

/**
 * Makes a table.
 * @param numbers how many columns after the first are aligned to the right
 */
function table(headings: readonly string[], rows: readonly (readonly string[])[], numbers: number): string[] {
  return [...aligned([headings, ...rows], new Set(Array.from({ length: numbers }, (_, i) => i + 1))), '']
}

function rateText(rate: number): string {
  return rate.toLocaleString('en', { maximumFractionDigits: rate < 10 ? 1 : 0 })
}
