import { h, type VNode } from 'vue'
import { COLUMNS, columnsOf, type Traffic, withColumn } from './traffic.ts'
import { timeText } from './text.ts'

const HEIGHT = 120
const WIDTH = 600
const COLUMN = WIDTH / COLUMNS

/** The height of the strip in requests, unless the traffic has more in a column. */
const LEAST_TOP = 20

/** What the strip remembers between events. */
export interface Drawing {
  /** The column that the keyboard changes. */
  column: number
  /** While the pointer draws: the last column that it changed, and the height of the strip in requests. */
  stroke: { column: number; readonly top: number } | undefined
}

/** Renders the strip on which traffic is drawn, with a pointer or with the arrow keys. */
export function drawStrip(traffic: Traffic, drawing: Drawing, change: (traffic: Traffic) => void): VNode {
  const counts = columnsOf(traffic)
  const top = drawing.stroke?.top ?? Math.max(LEAST_TOP, ...counts)
  const attributes = {
    class: 'strip',
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: 'none',
    role: 'group',
    'aria-label':
      'Requests over time. Arrow keys left and right choose a time, up and down change the number of requests.',
    onPointerdown(event: PointerEvent) {
      const { column, count } = placeOf(event, top)
      drawing.stroke = { column, top }
      ;(event.currentTarget as Element).setPointerCapture(event.pointerId)
      change(withColumn(traffic, column, count))
    },
    onPointermove(event: PointerEvent) {
      if (drawing.stroke !== undefined) change(stroked(traffic, drawing.stroke, placeOf(event, top)))
    },
    onPointerup: () => (drawing.stroke = undefined),
    onPointercancel: () => (drawing.stroke = undefined),
    onKeydown(event: KeyboardEvent) {
      const changed = afterKey(event, traffic, drawing, counts[drawing.column]!, top)
      if (changed !== undefined) change(changed)
    },
  }
  return h('svg', attributes, [
    bars(counts, top),
    ...counts.map((count, i) => slider(i, count, top, traffic.span, drawing)),
  ])
}

interface Place {
  readonly column: number
  readonly count: number
}

function placeOf(event: PointerEvent, top: number): Place {
  const box = (event.currentTarget as Element).getBoundingClientRect()
  const column = Math.floor(((event.clientX - box.left) / box.width) * COLUMNS)
  const count = Math.round((1 - (event.clientY - box.top) / box.height) * top)
  return { column: between(column, 0, COLUMNS - 1), count: between(count, 0, top) }
}

/** Sets every column between the last place of the pointer and this one: a fast pointer skips some. */
function stroked(traffic: Traffic, stroke: { column: number }, { column, count }: Place): Traffic {
  const step = column < stroke.column ? -1 : 1
  let changed = traffic
  for (let i = stroke.column; i !== column + step; i += step) changed = withColumn(changed, i, count)
  stroke.column = column
  return changed
}

const CHANGES: Readonly<Record<string, number>> = { ArrowUp: 1, ArrowDown: -1, PageUp: 5, PageDown: -5 }
const MOVES: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1, Home: -COLUMNS, End: COLUMNS }

function afterKey(
  event: KeyboardEvent,
  traffic: Traffic,
  drawing: Drawing,
  count: number,
  top: number,
): Traffic | undefined {
  const [by, move] = [CHANGES[event.key], MOVES[event.key]]
  if (by === undefined && move === undefined) return undefined
  event.preventDefault()
  if (by !== undefined) return withColumn(traffic, drawing.column, between(count + by, 0, top))
  drawing.column = between(drawing.column + move!, 0, COLUMNS - 1)
  ;(event.currentTarget as Element).querySelectorAll<SVGElement>('[role=slider]')[drawing.column]!.focus()
  return undefined
}

function between(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most)
}

function bars(counts: readonly number[], top: number): VNode {
  const path = counts.map((count, i) => {
    const height = (count / top) * HEIGHT
    return count === 0 ? '' : `M${i * COLUMN + 1} ${HEIGHT}v${-height}h${COLUMN - 2}v${height}z`
  })
  return h('path', { class: 'bars', d: path.join('') })
}

function slider(index: number, count: number, top: number, span: number, drawing: Drawing): VNode {
  const [from, to] = [index, index + 1].map((each) => timeText((each * span) / COLUMNS))
  return h('rect', {
    role: 'slider',
    tabindex: drawing.column === index ? 0 : -1,
    'aria-label': `Requests from ${from} to ${to}`,
    'aria-orientation': 'vertical',
    'aria-valuemin': 0,
    'aria-valuemax': top,
    'aria-valuenow': count,
    'aria-valuetext': count === 1 ? '1 request' : `${count} requests`,
    onFocus: () => (drawing.column = index),
    x: index * COLUMN,
    y: 0,
    width: COLUMN,
    height: HEIGHT,
  })
}
