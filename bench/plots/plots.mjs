import { parse, View } from 'vega'
import { compile } from 'vega-lite'
import { bytesPerKey } from './bytes-per-key.mjs'
import { costByKeys } from './cost-by-keys.mjs'
import { costByPeer } from './cost-by-peer.mjs'

const PLOTS = [
  { part: 'memory', name: 'performance-cost.svg', draw: costByPeer },
  { part: 'memory', name: 'performance-keys.svg', draw: costByKeys },
  { part: 'memory', name: 'performance-bytes.svg', draw: bytesPerKey },
]

/**
 * Draws what the results have data for.
 * @returns {Promise<{ part: string, name: string, title: string, svg: string }[]>}
 */
export async function plots(parts) {
  const drawn = []
  for (const { part, name, draw } of PLOTS) {
    const spec = draw(parts[part]?.rows ?? [])
    if (spec !== undefined) drawn.push({ part, name, title: spec.title, svg: await svg(spec) })
  }
  return drawn
}

async function svg(spec) {
  const { spec: compiled } = compile({
    background: 'white',
    padding: 12,
    config: { axis: { labelLimit: 300 }, legend: { labelLimit: 300 } },
    ...spec,
  })
  const view = new View(parse(compiled), { renderer: 'none' })
  return `${await view.toSVG()}\n`
}
