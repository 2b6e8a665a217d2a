import { createHash } from 'node:crypto'
import { grouped, percent } from '../table.ts'
import { summaryLines } from '../logs/summary.ts'
import { escapedHtml as html } from './escape.ts'
import { bars, timelinePlot } from './plots.ts'
import type { LimitReport } from './replay.ts'
import type { Report } from './report.ts'

const STYLE = `
:root { color-scheme: light dark; --admitted: #2f7d4f; --denied: #c8402f; --line: #8888; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; }
td.text { overflow-wrap: anywhere; min-width: 8rem; }
svg { width: 100%; height: auto; margin: .5rem 0; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.admitted { fill: var(--admitted); } .denied { fill: var(--denied); } .axis { stroke: var(--line); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
`

/**
 * Writes a report as one page without scripts that loads nothing. Its policy allows its own style only, so that a key of a client that
 * would pass the escaping could still do nothing.
 */
export function htmlOf(report: Report): string {
  const { log, decisions, limits, notes } = report
  const hash = createHash('sha256').update(STYLE).digest('base64')
  const policy = `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`
  const parts = [
    '<h1>What limits would have decided</h1>',
    `<pre>${html([...summaryLines(log), ...notes.map((note) => `note: ${note}`)].join('\n'))}</pre>`,
    decisions === undefined ? '' : section('All limits together', decisions, undefined),
    limitTable(limits),
    limits.some(({ exact }) => exact !== undefined) ? differences(limits) : '',
    ...limits.map((each) => section(each.limit, each, hardestTable(each))),
  ]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width">
<title>sluice replay</title>
<style>${STYLE}</style>
</head>
<body>
${parts.filter((each) => each !== '').join('\n')}
</body>
</html>
`
}

function section(title: string, tally: Omit<LimitReport, 'limit' | 'exact'>, more: string | undefined): string {
  const { admitted, denied, shadow, requests, timeline } = tally
  const refused = denied + shadow
  const verb = shadow > 0 ? 'would be denied' : 'denied'
  const line = `${grouped(admitted)} of ${grouped(requests)} requests admitted, ${grouped(refused)} ${verb} (${percent(refused, requests)})`
  return [`<h2>${html(title)}</h2>`, `<p>${line}</p>`, timelinePlot(timeline, title), more ?? ''].join('\n')
}

function limitTable(limits: readonly LimitReport[]): string {
  const rows = limits.map(({ limit, requests, admitted, denied, shadow, keysDenied, hasMoreKeys }) => [
    html(limit),
    ...[requests, admitted, denied, shadow].map(grouped),
    `${grouped(keysDenied)}${hasMoreKeys ? '+' : ''}`,
  ])
  return table(['limit', 'requests', 'admitted', 'denied', 'shadow', 'keys denied'], rows, 1)
}

function differences(limits: readonly LimitReport[]): string {
  const rows = limits.map(({ limit, exact }) => {
    const { compared = 0, tooStrict = 0, tooLenient = 0 } = exact ?? {}
    const cells = [tooStrict, tooLenient].map((count) => `${grouped(count)} (${percent(count, compared)})`)
    return [html(limit), ...cells]
  })
  const plot = bars(
    limits.map(({ limit, exact }) => ({ label: limit, strict: exact!.tooStrict, lenient: exact!.tooLenient })),
  )
  return [
    '<h2>Decisions that differ from an exact log of the window</h2>',
    plot,
    table(['limit', 'too strict', 'too lenient'], rows, 1),
  ].join('\n')
}

function hardestTable({ hardest }: LimitReport): string {
  if (hardest.length === 0) return ''
  const rows = hardest.map(({ key, denied, worstMinute, first, last }) => [
    html(key === '' ? '(no key)' : key),
    grouped(denied),
    `${grouped(worstMinute.denied)} at ${worstMinute.at.slice(0, 16)}Z`,
    first,
    last,
  ])
  return table(['key', 'denied', 'worst minute', 'first', 'last'], rows, 1)
}

/** @param rows cells in HTML; all but the first `texts` are numbers and times */
function table(headings: readonly string[], rows: readonly (readonly string[])[], texts: number): string {
  const kind = (i: number): string => (i < texts ? 'text' : 'number')
  const head = headings.map((each, i) => `<th scope="col" class="${kind(i)}">${each}</th>`).join('')
  const body = rows.map((row) => `<tr>${row.map((cell, i) => `<td class="${kind(i)}">${cell}</td>`).join('')}</tr>`)
  return `<div class="wide"><table><thead><tr>${head}</tr></thead><tbody>\n${body.join('\n')}\n</tbody></table></div>`
}
