import { roughDuration } from '../../util/duration.ts'
import { grouped } from '../table.ts'
import { escapedHtml } from './escape.ts'
import type { TimelineReport } from './timeline.ts'

/** The size of a plot in its own units. It is stretched to the width of the page: its labels are outside, in HTML. */
const WIDTH = 800
const HEIGHT = 160

/** The two kinds of bars. They differ in brightness, in hue, and by stripes, for readers who see few colors and for print. */
type Kind = 'plain' | 'striped'

/** The stripes of a page. They stand in it once, before all plots. */
export const STRIPES = `<svg class="hidden" aria-hidden="true"><defs>
<pattern id="stripes" width="8" height="6" patternUnits="userSpaceOnUse"><rect class="ground" width="8" height="6"/><rect class="stripe" width="8" height="2"/></pattern>
</defs></svg>`

/** Draws admitted requests, and denied ones above them, over time. */
export function timelinePlot({ from, width, admitted, denied }: TimelineReport, title: string, verb: string): string {
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

/** One limit of a comparison. */
export interface Bar {
  readonly label: string
  readonly strict: number
  readonly lenient: number
}

/** Draws how often each limit decides otherwise than the exact log: too strict, and too lenient next to it. */
export function bars(given: readonly Bar[]): string {
  const most = given.reduce((max, { strict, lenient }) => Math.max(max, strict + lenient), 1)
  const rows = given.map(({ label, strict, lenient }) => {
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
