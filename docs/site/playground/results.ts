import { h, type VNode } from 'vue'
import type { Result } from './compare.ts'
import type { Summary, Verdict } from './simulate.ts'
import { exactText, timeText } from './text.ts'
import { axis } from './traffic-fields.ts'

const WIDTH = 1000

/** Renders what was decided under each limit, one time line below the other. */
export function results(all: readonly Result[], span: number, window: number): VNode {
  return h('div', { class: 'results' }, [
    h('p', { class: 'hint' }, [
      h('span', { class: 'key allowed' }, '▲ allowed'),
      ' ',
      h('span', { class: 'key denied' }, '▼ denied'),
      ` · vertical lines: every ${timeText(window)}`,
    ]),
    ...all.map((result) => line(result, span, window)),
    axis(span),
  ])
}

function line({ title, verdicts, summary, wrong }: Result, span: number, window: number): VNode {
  if (verdicts === undefined || summary === undefined) {
    return h('section', { class: 'result', 'aria-label': title }, [h('h3', title), h('p', { class: 'wrong' }, wrong)])
  }
  const text = summaryText(summary, window)
  return h('section', { class: 'result', 'aria-label': title }, [
    h('div', { class: 'head' }, [h('h3', title), h('p', { class: 'numbers' }, text)]),
    h(
      'svg',
      { viewBox: `0 0 ${WIDTH} 40`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: ${text}` },
      [
        h('path', { class: 'edges', d: edges(span, window) }),
        h('path', { class: 'allowed', d: ticks(verdicts, true, span, 'V3') }),
        h('path', { class: 'denied', d: ticks(verdicts, false, span, 'V37') }),
      ],
    ),
  ])
}

/** Writes the counts of a line. */
export function summaryText({ allowed, denied, most, mostAfterDelay }: Summary, window: number): string {
  const delayed = mostAfterDelay === undefined ? '' : ` (${mostAfterDelay} after the delay)`
  return `${allowed} allowed, ${denied} denied, at most ${most} in any ${timeText(window)}${delayed}`
}

/** Returns a mark for each request that was decided so. Requests at one place of the picture share a mark. */
function ticks(verdicts: readonly Verdict[], allowed: boolean, span: number, draw: string): string {
  const places = verdicts.filter((each) => each.allowed === allowed).map(({ at }) => ((at / span) * WIDTH).toFixed(1))
  return [...new Set(places)].map((x) => `M${x} 20${draw}`).join('')
}

function edges(span: number, window: number): string {
  const count = Math.floor(span / window)
  if (count > 100) return ''
  return Array.from({ length: count }, (_, i) => `M${((((i + 1) * window) / span) * WIDTH).toFixed(1)} 0V40`).join('')
}

/** Renders every decision as a table. */
export function decisionTable(verdicts: readonly Verdict[]): VNode {
  const head = ['request', 'time', 'decision', 'remaining', 'retry after', 'delay'].map((text) =>
    h('th', { scope: 'col' }, text),
  )
  const rows = verdicts.map(({ at, allowed, remaining, retryAfter, delay }, i) => {
    const cells = [
      i + 1,
      exactText(at),
      allowed ? 'allowed' : 'denied',
      remaining,
      timeText(retryAfter),
      timeText(delay),
    ]
    return h(
      'tr',
      { class: allowed ? 'allowed' : 'denied' },
      cells.map((cell) => h('td', cell)),
    )
  })
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Every decision' }, [
    h('table', [h('thead', [h('tr', head)]), h('tbody', rows)]),
  ])
}
