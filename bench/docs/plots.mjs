import { svg, WIDTH } from '../../docs/plot/svg.mjs'

/** The floor is grey, our build red, and each peer the same colour in every plot. */
const COLOURS = {
  floor: '#7d7d7d',
  'one statement': '#7d7d7d',
  'sluice, before': '#c77c7c',
  sluice: '#b2182b',
  '@fastify/rate-limit': '#2166ac',
  'hono-rate-limiter': '#e08214',
  'express-rate-limit': '#2e7d32',
  limiter: '#7b52ab',
  'rate-limiter-flexible': '#7a5246',
}
const SUBJECTS = Object.keys(COLOURS)

/** What readers of a plot call the builds that a run compares. */
const BUILDS = { before: 'sluice, before', after: 'sluice' }

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
    Object.entries(row.values).map(([subject, { median }]) => ({
      row: row.title,
      subject: BUILDS[subject] ?? subject,
      value: median,
    })),
  )
  return {
    title: { text: title, frame: 'bounds' },
    data: { values },
    columns: 1,
    facet: { field: 'row', type: 'nominal', title: null, sort: rows.map((row) => row.title) },
    resolve: { scale: { x: 'independent' } },
    spec: {
      width: WIDTH - 110,
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
