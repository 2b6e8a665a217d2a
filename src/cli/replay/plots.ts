import { grouped } from '../table.ts'
import { escapedHtml } from './escape.ts'
import type { TimelineReport } from './timeline.ts'

const WIDTH = 800
const HEIGHT = 160
/** Room for the labels of the axes. */
const LEFT = 56
const BOTTOM = 22
const TOP = 8

/** Draws admitted requests, and denied ones above them, over time. */
export function timelinePlot({ from, width, admitted, denied }: TimelineReport, title: string): string {
  const slots = Math.max(1, admitted.length)
  const most = Math.max(1, ...admitted.map((count, i) => count + denied[i]!))
  const step = (WIDTH - LEFT) / slots
  const high = (count: number): number => ((HEIGHT - BOTTOM - TOP) * count) / most
  const shapes: string[] = []
  for (const [i, count] of admitted.entries()) {
    const base = HEIGHT - BOTTOM
    const x = LEFT + i * step
    if (count > 0) shapes.push(rectangle('admitted', x, base - high(count), step, high(count)))
    const refused = denied[i]!
    if (refused > 0) shapes.push(rectangle('denied', x, base - high(count + refused), step, high(refused)))
  }
  const start = Date.parse(from)
  const label = `Requests over time, admitted and denied: ${title}`
  return svg(HEIGHT, label, [
    ...shapes,
    axis(HEIGHT - BOTTOM),
    text(LEFT - 6, TOP + 8, 'end', grouped(most)),
    text(LEFT - 6, HEIGHT - BOTTOM, 'end', '0'),
    text(LEFT, HEIGHT - 4, 'start', shortTime(start)),
    text(WIDTH, HEIGHT - 4, 'end', shortTime(start + slots * width)),
  ])
}

/** One limit of a comparison. */
export interface Bar {
  readonly label: string
  readonly strict: number
  readonly lenient: number
}

const ROW = 42

/** Draws how often each limit decides otherwise than the exact log: too strict, and too lenient behind it. */
export function bars(given: readonly Bar[]): string {
  const most = Math.max(1, ...given.map(({ strict, lenient }) => strict + lenient))
  const shapes = given.flatMap(({ label, strict, lenient }, i) => {
    const y = i * ROW
    const wide = (count: number): number => ((WIDTH - 90) * count) / most
    return [
      text(0, y + 14, 'start', label),
      rectangle('denied', 0, y + 18, wide(strict), 14),
      rectangle('admitted', wide(strict), y + 18, wide(lenient), 14),
      text(wide(strict + lenient) + 6, y + 30, 'start', grouped(strict + lenient)),
    ]
  })
  return svg(given.length * ROW, 'Decisions that are too strict, in red, and too lenient, in green', shapes)
}

function svg(height: number, label: string, shapes: readonly string[]): string {
  const written = escapedHtml(label)
  return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${written}">\n${shapes.join('\n')}\n</svg>`
}

function rectangle(kind: 'admitted' | 'denied', x: number, y: number, width: number, height: number): string {
  return `<rect class="${kind}" x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"/>`
}

function axis(y: number): string {
  return `<line class="axis" x1="${LEFT}" x2="${WIDTH}" y1="${y}" y2="${y}"/>`
}

function text(x: number, y: number, anchor: 'start' | 'end', content: string): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escapedHtml(content)}</text>`
}

function shortTime(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19).replace('T', ' ')}Z`
}

function round(number: number): string {
  return String(Math.round(number * 100) / 100)
}
