import { parse, View } from 'vega'
import { compile, type TopLevelSpec } from 'vega-lite'

const FONT = 'Helvetica, Arial, sans-serif'

/** Draws without a browser. Equal data make equal bytes. */
export async function svg(spec: TopLevelSpec): Promise<string> {
  const config = {
    font: FONT,
    view: { stroke: '#c8c8c8' },
    axis: {
      gridColor: '#ececec',
      domainColor: '#888',
      tickColor: '#888',
      labelFontSize: 11,
      titleFontSize: 11,
      titleFontWeight: 'normal' as const,
    },
    title: { anchor: 'start' as const, frame: 'group' as const, fontSize: 13, offset: 8 },
    legend: {
      orient: 'bottom' as const,
      labelFontSize: 12,
      labelLimit: 300,
      symbolSize: 110,
      columnPadding: 24,
      offset: 10,
    },
  }
  const compiled = compile({ background: 'white', padding: 12, ...spec, config })
  return `${await new View(parse(compiled.spec), { renderer: 'none' }).toSVG()}\n`
}
