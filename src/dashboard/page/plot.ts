// Draws a series as SVG.
import { type Series, SPAN, type State } from '../state.ts'
import { filled, plottedBuckets, total } from './model.ts'

const NAMESPACE = 'http://www.w3.org/2000/svg'
const HEIGHT = 100
const CLASSES = ['area', 'denied-line', 'shadow-line']

export function createPlot(): SVGSVGElement {
  const svg = document.createElementNS(NAMESPACE, 'svg')
  svg.setAttribute('preserveAspectRatio', 'none')
  for (const each of CLASSES) {
    const path = document.createElementNS(NAMESPACE, 'path')
    path.setAttribute('class', each)
    path.setAttribute('vector-effect', 'non-scaling-stroke')
    svg.append(path)
  }
  return svg
}

/** Draws a series. Each step is the rate per second in one bucket. Returns the rate at the top of the plot. */
export function draw(svg: SVGSVGElement, series: Series, state: State): number {
  const rates = CLASSES.map((_, kind) => ratesOf(series, kind, state))
  const top = roundTop(Math.max(...rates.flat(), 0))
  svg.setAttribute('viewBox', '0 0 ' + plottedBuckets(state) + ' ' + HEIGHT)
  rates.forEach((list, kind) => svg.children[kind].setAttribute('d', pathOf(list, top, kind === 0)))
  return top
}

/** Returns the next number in 1, 2, 5, 10, 20, 50 and so on. */
function roundTop(rate: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(rate, 1)))
  return power * ([1, 2, 5].find((each) => each * power >= rate) ?? 10)
}

/** Returns the rate in each bucket. The last bucket is not complete: its rate is for the seconds so far, at least two, so that one request makes no peak. */
function ratesOf(series: Series, kind: number, state: State): number[] {
  if (total(series, kind) === 0) return []
  const list = series.counts[kind].slice(-plottedBuckets(state))
  const empty = new Array<number>(plottedBuckets(state) - list.length).fill(0)
  const last = list.length - 1
  return [...empty, ...list.map((count, i) => count / (i === last ? Math.max(2, filled(state)) : SPAN))]
}

function pathOf(rates: readonly number[], top: number, isArea: boolean): string {
  if (rates.length === 0) return ''
  const heights = rates.map((each) => (HEIGHT - (each / top) * HEIGHT).toFixed(1))
  const steps = heights.map((height, i) => 'V' + height + 'H' + (i + 1)).join('')
  return isArea ? 'M0 ' + HEIGHT + steps + 'V' + HEIGHT + 'Z' : 'M0 ' + heights[0] + steps
}
