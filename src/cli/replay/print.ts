import { summaryLines } from '../logs/summary.ts'
import { columns, grouped, percent } from '../table.ts'
import type { Report } from './report.ts'
import type { LimitReport } from './replay.ts'

const NUMBERS = new Set([1, 2, 3, 4, 5, 6, 7])

/** Writes a report for people. */
export function printed(report: Report): string {
  const { log, decisions, limits, notes } = report
  const overall =
    decisions === undefined
      ? []
      : [
          `${grouped(decisions.admitted)} requests admitted, ${grouped(decisions.denied)} denied (${percent(decisions.denied, decisions.requests)})`,
          '',
        ]
  const head = [...summaryLines(log), ...notes.map((note) => `note: ${note}`)]
  const table = limitTable(limits)
  // A comparison is about its table, which lists of keys would push off the screen.
  const first = decisions === undefined ? [...table, '', ...head] : [...head, '', ...overall, ...table]
  return [...first, ...limits.flatMap(hardestTable), ''].join('\n')
}

function limitTable(limits: readonly LimitReport[]): string[] {
  const isCompared = limits.some(({ exact }) => exact !== undefined)
  const headings = ['limit', 'requests', 'admitted', 'denied', 'shadow', 'keys denied']
  const rows = limits.map((each) => [
    each.limit,
    ...[each.requests, each.admitted, each.denied, each.shadow].map(grouped),
    `${grouped(each.keysDenied)}${each.hasMoreKeys ? '+' : ''}`,
    ...(isCompared ? exactCells(each) : []),
  ])
  return columns([[...headings, ...(isCompared ? ['too strict', 'too lenient'] : [])], ...rows], NUMBERS)
}

/** How often a limit decides otherwise than the exact log. */
function exactCells({ exact }: LimitReport): string[] {
  const { compared, tooStrict, tooLenient } = exact!
  return [tooStrict, tooLenient].map((count) => `${grouped(count)} (${percent(count, compared)})`)
}

function hardestTable({ limit, hardest }: LimitReport): string[] {
  if (hardest.length === 0) return []
  const rows = hardest.map(({ key, denied, worstMinute, first, last }) => [
    key === '' ? '(no key)' : key,
    grouped(denied),
    `${grouped(worstMinute.denied)} at ${worstMinute.at.slice(0, 16)}Z`,
    first,
    last,
  ])
  const headings = ['key', 'denied', 'worst minute', 'first', 'last']
  return ['', `most denied by ${limit}`, ...columns([headings, ...rows], new Set([1, 2]))]
}
