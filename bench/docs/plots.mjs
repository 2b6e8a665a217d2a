import { parse, View } from 'vega'
import { compile } from 'vega-lite'

/** The floor is grey, our build red, and each peer the same colour in every plot. */
const COLOURS = {
  floor: '#9e9e9e',
  'one statement': '#9e9e9e',
  before: '#e8a0a0',
  after: '#d62728',
  sluice: '#d62728',
  '@fastify/rate-limit': '#1f77b4',
  'hono-rate-limiter': '#ff9f40',
  'express-rate-limit': '#2ca02c',
  limiter: '#9467bd',
  'rate-limiter-flexible': '#8c564b',
}
const SUBJECTS = Object.keys(COLOURS)

const PLOTS = [
  {
    name: 'performance-cost.svg',
    group: 'Time per decision, against the peers',
    title: 'Nanoseconds per decision, in memory',
  },
  {
    name: 'performance-bytes.svg',
    group: 'Memory per key and limit',
    title: 'Bytes per key, beyond the string of the key',
  },
  ...['PostgreSQL', 'MariaDB', 'SQLite'].map((name) => ({
    name: `performance-${name.toLowerCase()}.svg`,
    group: `${name}, one limit, 10,000 keys, decisions per second`,
    title: `Decisions per second, ${name}`,
  })),
]

/**
 * Draws the bar charts of the groups that were measured.
 * @returns {Promise<{ name: string, title: string, svg: string }[]>}
 */
export async function plots(rows) {
  const drawn = []
  for (const { name, group, title } of PLOTS) {
    const members = rows.filter((row) => row.group === group)
    if (members.length > 0) drawn.push({ name, title, svg: await svg(bars(title, members)) })
  }
  return drawn
}

/** A chart with a panel for each row and a bar for each subject. */
function bars(title, rows) {
  const values = rows.flatMap((row) =>
    Object.entries(row.values).map(([subject, { median }]) => ({ row: row.title, subject, value: median })),
  )
  return {
    title,
    data: { values },
    columns: 2,
    facet: { field: 'row', type: 'nominal', title: null, sort: rows.map((row) => row.title) },
    resolve: { scale: { x: 'independent' } },
    spec: {
      width: 320,
      height: { step: 20 },
      mark: 'bar',
      encoding: {
        y: { field: 'subject', type: 'nominal', title: null, sort: SUBJECTS },
        x: { field: 'value', type: 'quantitative', title: rows[0].unit },
        color: {
          field: 'subject',
          type: 'nominal',
          legend: null,
          scale: { domain: SUBJECTS, range: Object.values(COLOURS) },
        },
      },
    },
  }
}

/** Draws a vega-lite chart. */
export async function svg(spec) {
  const config = { axis: { labelLimit: 300 } }
  const { spec: compiled } = compile({ background: 'white', padding: 12, config, ...spec })
  const view = new View(parse(compiled), { renderer: 'none' })
  return `${await view.toSVG()}\n`
}
