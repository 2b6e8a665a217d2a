import { escaped, grouped, percent } from '../print.ts'
import { roughDuration } from '../../util/duration.ts'
import type { TimelineReport } from './tally.ts'
import { createHash } from 'node:crypto'
import { summaryLines } from '../logs/read.ts'
import type { LimitReport, Report } from './replay.ts'

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes a text for HTML and SVG, between tags and in attributes. Control characters are written as in JSON. */
function escapedHtml(text: string): string {
  return escaped(text).replaceAll(/[&<>"']/g, (each) => ENTITIES[each]!)
}

/** The size of a plot in its own units. A plot is stretched to the width of the page, so its labels are outside, in HTML. */
const WIDTH = 800
const HEIGHT = 160

/** The two kinds of bars. They differ in brightness, hue and stripes, for readers who see few colors and for print. */
type Kind = 'plain' | 'striped'

/** The stripes. A page contains them once, before all plots. */
const STRIPES = `<svg class="hidden" aria-hidden="true"><defs>
<pattern id="stripes" width="8" height="6" patternUnits="userSpaceOnUse"><rect class="ground" width="8" height="6"/><rect class="stripe" width="8" height="2"/></pattern>
</defs></svg>`

/** Draws the admitted requests over time, and the denied requests above them. */
function timelinePlot({ from, width, admitted, denied }: TimelineReport, title: string, verb: string): string {
  const slots = Math.max(1, admitted.length)
  const most = admitted.reduce((max, count, i) => Math.max(max, count + denied[i]!), 1)
  const step = WIDTH / slots
  const high = (count: number): number => (HEIGHT * count) / most
  const shapes = admitted.flatMap((count, i) => [
    rectangle('plain', i * step, HEIGHT - high(count), step, high(count)),
    rectangle('striped', i * step, HEIGHT - high(count + denied[i]!), step, high(denied[i]!)),
  ])
  const start = Date.parse(from)
  return `<figure>
${legend('admitted', verb)}
<p class="unit">requests per ${roughDuration(width)}</p>
<div class="frame"><div class="scale"><span>${grouped(most)}</span><span>0</span></div>
${svg(HEIGHT, `Requests over time, admitted and ${verb}: ${title}`, shapes)}</div>
<div class="times"><span>${shortTime(start)}</span><span>${shortTime(start + slots * width)}</span></div>
<p class="unit time">time (UTC)</p>
</figure>`
}

/** Draws how often each limit differs from the exact log: a bar for too strict, and next to it a bar for too lenient. */
function bars(limits: readonly LimitReport[]): string {
  const most = limits.reduce((max, { exact }) => Math.max(max, exact!.tooStrict + exact!.tooLenient), 1)
  const rows = limits.map(({ limit: label, exact }) => {
    const { tooStrict: strict, tooLenient: lenient } = exact!
    const wide = (count: number): number => (WIDTH * count) / most
    const shapes = [
      rectangle('plain', 0, 0, wide(lenient), 14),
      rectangle('striped', wide(lenient), 0, wide(strict), 14),
    ]
    const said = `${grouped(lenient)} too lenient, ${grouped(strict)} too strict`
    const drawn = svg(14, `${said}: ${label}`, shapes)
    return `<li><span>${escapedHtml(label)}</span>\n${drawn}\n<span class="unit">${said}</span></li>`
  })
  const key = legend('too lenient: only the exact log denies', 'too strict: only the limit denies')
  return `<figure>\n${key}\n<p class="unit">decisions; the longest bar is ${grouped(most)}</p>\n<ul>\n${rows.join('\n')}\n</ul>\n</figure>`
}

function legend(plain: string, striped: string): string {
  const item = (kind: Kind, label: string): string =>
    `<span><svg class="swatch" viewBox="0 0 20 14" aria-hidden="true">${rectangle(kind, 0, 0, 20, 14)}</svg> ${label}</span>`
  return `<figcaption class="legend">${item('plain', plain)} ${item('striped', striped)}</figcaption>`
}

function svg(height: number, label: string, shapes: readonly string[]): string {
  const drawn = shapes.filter((each) => each !== '').join('\n')
  const size = `viewBox="0 0 ${WIDTH} ${height}" preserveAspectRatio="none"`
  return `<svg ${size} role="img" aria-label="${escapedHtml(label)}">\n${drawn}\n</svg>`
}

function rectangle(kind: Kind, x: number, y: number, width: number, height: number): string {
  if (width === 0 || height === 0) return ''
  return `<rect class="${kind}" x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"/>`
}

function shortTime(time: number): string {
  return new Date(time).toISOString().slice(0, 19).replace('T', ' ')
}

function round(number: number): string {
  return String(Math.round(number * 100) / 100)
}

const STYLE = `
:root { color-scheme: light dark; --paper: #ffffff; --plain: #0072b2; --striped: #d55e00; --stripe: #7a3300; --line: #8888; }
@media (prefers-color-scheme: dark) { :root { --paper: #121212; --plain: #56b4e9; --striped: #e69f00; --stripe: #6b4700; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; background: var(--paper); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; }
td.text { overflow-wrap: anywhere; min-width: 8rem; }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; height: 10rem; border-bottom: 1px solid var(--line); }
figure svg.swatch { display: inline-block; width: 20px; height: 14px; border: 0; vertical-align: -1px; }
figure li svg { height: 1rem; border: 0; }
figure ul { list-style: none; margin: 0; padding: 0; } figure li { margin: .5rem 0; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; }
.unit { margin: .25rem 0; font-size: .85rem; } .unit.time { text-align: right; }
.frame { display: flex; gap: .5rem; }
.scale, .times { display: flex; justify-content: space-between; font-size: .85rem; font-variant-numeric: tabular-nums; }
.scale { flex-direction: column; text-align: right; line-height: 1; }
.hidden { position: absolute; width: 0; height: 0; }
.plain { fill: var(--plain); } .striped { fill: url(#stripes); } .ground { fill: var(--striped); } .stripe { fill: var(--stripe); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  table, tbody, tr, td { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  td, td.number { display: flex; gap: 1rem; justify-content: space-between; padding: 0; border: 0; text-align: right; overflow-wrap: anywhere; }
  td::before { content: attr(data-label); flex: none; text-align: left; opacity: .75; }
}
`

/**
 * Writes a report as one page. The page has no scripts and loads nothing. Its policy only allows its own style. So a client key could do
 * nothing even if it was not escaped.
 */
export function htmlOf(report: Report): string {
  const { log, decisions, limits, notes } = report
  const hash = createHash('sha256').update(STYLE).digest('base64')
  const policy = `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`
  const parts = [
    '<h1>What limits would have decided</h1>',
    `<pre>${escapedHtml([...summaryLines(log), ...notes.map((note) => `note: ${note}`)].join('\n'))}</pre>`,
    limits.some(({ exact }) => exact !== undefined) ? differences(limits) : '',
    decisions === undefined ? '' : section('All limits together', decisions, ''),
    table(LIMIT_HEADINGS, limits.map(limitCells)),
    ...limits.map((each) => section(each.limit, each, table(KEY_HEADINGS, keyCells(each)))),
  ]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice replay</title>
<style>${STYLE}</style>
</head>
<body>
${STRIPES}
<main>
${parts.filter((each) => each !== '').join('\n')}
</main>
</body>
</html>
`
}

function section(title: string, tally: Omit<LimitReport, 'limit' | 'exact'>, more: string): string {
  const { admitted, denied, shadow, requests, timeline } = tally
  const refused = denied + shadow
  const verb = shadow > 0 ? 'would be denied' : 'denied'
  const line = `${grouped(admitted)} of ${grouped(requests)} requests admitted, ${grouped(refused)} ${verb} (${percent(refused, requests)})`
  return [`<h2>${escapedHtml(title)}</h2>`, `<p>${line}</p>`, timelinePlot(timeline, title, verb), more].join('\n')
}

export const LIMIT_HEADINGS: readonly string[] = ['limit', 'requests', 'admitted', 'denied', 'shadow', 'keys denied']
export const EXACT_HEADINGS: readonly string[] = ['too strict', 'too lenient']
export const KEY_HEADINGS: readonly string[] = ['key', 'denied', 'worst minute', 'first', 'last']

export function limitCells(report: LimitReport): string[] {
  const { limit, requests, admitted, denied, shadow, keysDenied, hasMoreKeys } = report
  const keys = `${grouped(keysDenied)}${hasMoreKeys ? '+' : ''}`
  return [limit, ...[requests, admitted, denied, shadow].map(grouped), keys]
}

/** Returns how often a limit differs from the exact log. */
export function exactCells({ exact }: LimitReport): string[] {
  const { compared, tooStrict, tooLenient } = exact!
  return [tooStrict, tooLenient].map((count) => `${grouped(count)} (${percent(count, compared)})`)
}

export function keyCells({ hardest }: LimitReport): string[][] {
  return hardest.map(({ key, denied, worstMinute, first, last }) => {
    const worst = `${grouped(worstMinute.denied)} at ${worstMinute.at.slice(0, 16)}Z`
    return [key === '' ? '(no key)' : key, grouped(denied), worst, first, last]
  })
}

function differences(limits: readonly LimitReport[]): string {
  const rows = limits.map((each) => [each.limit, ...exactCells(each)])
  const figures = table(['limit', ...EXACT_HEADINGS], rows)
  return ['<h2>Decisions that differ from an exact log of the window</h2>', bars(limits), figures].join('\n')
}

/**
 * Writes a table.
 * @param rows the first cell of each row is a text, and the other cells are numbers and times
 */
function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return ''
  const kind = (i: number): string => (i === 0 ? 'text' : 'number')
  const head = headings.map((each, i) => `<th scope="col" class="${kind(i)}">${each}</th>`).join('')
  const body = rows.map(
    (row) =>
      `<tr>${row.map((cell, i) => `<td class="${kind(i)}" data-label="${headings[i]}"><span>${escapedHtml(cell)}</span></td>`).join('')}</tr>`,
  )
  return `<table><thead><tr>${head}</tr></thead><tbody>\n${body.join('\n')}\n</tbody></table>`
}
