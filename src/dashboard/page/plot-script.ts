/** Draws a series as SVG. */
export const plotScript: string = String.raw`// @ts-check
import { plottedSeconds, sum, total } from './model.js'
/** @typedef {import('./model.js').Series} Series */

const NAMESPACE = 'http://www.w3.org/2000/svg'
const HEIGHT = 100
const CLASSES = ['area', 'denied-line', 'shadow-line']

/** Creates an empty plot. */
export function createPlot() {
  const svg = document.createElementNS(NAMESPACE, 'svg')
  svg.setAttribute('preserveAspectRatio', 'none')
  for (const each of CLASSES) {
    const path = document.createElementNS(NAMESPACE, 'path')
    path.setAttribute('class', each)
    path.setAttribute('vector-effect', 'non-scaling-stroke')
    svg.append(path)
  }
  return /** @type {SVGSVGElement} */ (svg)
}

/**
 * Draws a series. Each step is the rate per second over so many seconds.
 * @param {SVGSVGElement} svg @param {Series} series @param {number} span
 * @returns {number} the rate at the top of the plot
 */
export function draw(svg, series, span) {
  const rates = CLASSES.map((_, kind) => ratesOf(series, kind, span))
  const top = roundTop(Math.max(...rates.flat(), 0))
  svg.setAttribute('viewBox', '0 0 ' + plottedSeconds() / span + ' ' + HEIGHT)
  rates.forEach((list, kind) => svg.children[kind].setAttribute('d', pathOf(list, top, kind === 0)))
  return top
}

/** The next of 1, 2, 5, 10, 20, 50 and so on. @param {number} rate */
function roundTop(rate) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rate, 1)))
  return power * ([1, 2, 5].find((each) => each * power >= rate) ?? 10)
}

/** @param {Series} series @param {number} kind @param {number} span */
function ratesOf(series, kind, span) {
  /** @type {number[]} */
  const rates = []
  if (total(series, kind) === 0) return rates
  for (let from = series.second - plottedSeconds() + 1; from <= series.second; from += span) {
    rates.push(sum(series, kind, from, from + span - 1) / span)
  }
  return rates
}

/** @param {number[]} rates @param {number} top @param {boolean} isArea */
function pathOf(rates, top, isArea) {
  if (rates.length === 0) return ''
  const heights = rates.map((each) => (HEIGHT - (each / top) * HEIGHT).toFixed(1))
  const steps = heights.map((height, i) => 'V' + height + 'H' + (i + 1)).join('')
  return isArea ? 'M0 ' + HEIGHT + steps + 'V' + HEIGHT + 'Z' : 'M0 ' + heights[0] + steps
}
`
