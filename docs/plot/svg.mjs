import { parse, View } from 'vega'
import { compile } from 'vega-lite'

const FONT = 'Helvetica, Arial, sans-serif'

/** Width of the panels of a picture. With axes and padding, a picture is at most 560 wide, so that its text is readable on a phone. */
export const WIDTH = 440

/**
 * Each colour of a picture, and the colour that replaces it on a dark page.
 * @type {Readonly<Record<string, string>>}
 */
const DARK = {
  white: '#1b1b1f',
  '#000': '#e4e4e7',
  '#222': '#e4e4e7',
  '#444': '#d0d0d6',
  '#444444': '#d0d0d6',
  '#888': '#8e8e96',
  '#bdbdbd': '#55555c',
  '#c8c8c8': '#55555c',
  '#ececec': '#2e2e33',
  '#2166ac': '#6cb2f5',
  '#e08214': '#f5a742',
  '#b2182b': '#ff8a80',
  '#7d7d7d': '#a0a0a8',
  '#c77c7c': '#d9a3a3',
  '#2e7d32': '#7cc47f',
  '#7b52ab': '#bb9be0',
  '#7a5246': '#c09a8d',
}

/**
 * Draws without a browser, for light and dark pages. Equal data make equal bytes. It is JavaScript because `bench/` runs without a build.
 * @param {import('vega-lite').TopLevelSpec} spec
 * @returns {Promise<string>}
 */
export async function svg(spec) {
  const config = {
    font: FONT,
    view: { stroke: '#c8c8c8' },
    axis: {
      gridColor: '#ececec',
      domainColor: '#888',
      tickColor: '#888',
      labelFontSize: 13,
      labelLimit: 240,
      titleFontSize: 13,
      titleFontWeight: 'normal',
    },
    header: { labelFontSize: 13, labelAnchor: 'start', labelOrient: 'top' },
    title: { anchor: 'start', frame: 'group', fontSize: 15, subtitleFontSize: 13, offset: 8 },
    legend: {
      orient: 'bottom',
      title: null,
      columns: 2,
      labelFontSize: 14,
      labelLimit: 300,
      symbolSize: 110,
      columnPadding: 24,
      offset: 10,
    },
  }
  const compiled = compile({ background: 'white', padding: 12, ...spec, config })
  return `${forDarkPages(await new View(parse(compiled.spec), { renderer: 'none' }).toSVG())}\n`
}

/** Adds colours for dark pages. Throws if a colour of the picture has none. */
function forDarkPages(text) {
  const used = new Set(
    [...text.matchAll(/ (?:fill|stroke)="(?!none|transparent)([^"]+)"/g)].map(([, colour]) => colour),
  )
  const rules = [...used]
    .toSorted((one, other) => (one < other ? -1 : 1))
    .map((colour) => {
      const dark = DARK[colour]
      if (dark === undefined) throw new Error(`DARK has no colour for ${colour}`)
      return `[fill="${colour}"]{fill:${dark}}[stroke="${colour}"]{stroke:${dark}}`
    })
  const style = `<style>@media (prefers-color-scheme:dark){${rules.join('')}}</style>`
  return text.replace(/<svg [^>]*>/, (opening) => opening + style)
}
