import { svg, WIDTH } from '../../docs/plot/svg.mjs'
import { forReaders } from './readers.mjs'

/** The floor is grey, our build red, and each peer the same colour in every plot. */
const COLOURS = {
  floor: '#7d7d7d',
  'one statement': '#7d7d7d',
  'INCR, auto-pipelined': '#7d7d7d',
  sluice: '#b2182b',
  '@fastify/rate-limit': '#2166ac',
  'hono-rate-limiter': '#e08214',
  'express-rate-limit': '#2e7d32',
  limiter: '#7b52ab',
  'koa-ratelimit': '#7b52ab',
  'rate-limit-redis': '#2e7d32',
  'rate-limiter-flexible': '#7a5246',
}
const SUBJECTS = Object.keys(COLOURS)

/** The row of a server part that a plot shows, and the numbers in flight. */
const ADDED = 'of it, over two headers'
const IN_FLIGHT = [1, 8, 32, 128, 1000].map((count) => `${count.toLocaleString('en')} in flight`)

const PLOTS = [
  {
    name: 'performance-servers.svg',
    group: 'In a server',
    title: 'Microseconds that a limiter adds to a request',
    rows: (rows) =>
      rows
        .filter(({ title }) => title === ADDED)
        .map(({ group, values, unit }) => ({ title: group.replace('In a server, ', ''), values, unit })),
  },
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
  {
    name: 'performance-redis.svg',
    group: 'Redis, one limit, decisions per second',
    title: 'Decisions per second, Redis',
    rows: (rows) => rows.filter(({ title }) => IN_FLIGHT.includes(title)),
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
  for (const { name, group, title, rows: chosen = (members) => members } of PLOTS) {
    const members = chosen(
      rows.map(forReaders).filter((row) => row.group === group || row.group.startsWith(`${group}, `)),
    )
    if (members.length > 0) drawn.push({ name, title, svg: await svg(bars(title, members)) })
  }
  return drawn
}

/** A chart with a panel for each row and a bar for each subject. */
function bars(title, rows) {
  const values = rows.flatMap((row) =>
    Object.entries(row.values)
      .filter(([subject]) => SUBJECTS.includes(subject))
      .map(([subject, { median }]) => ({ row: row.title, subject, value: median })),
  )
  return {
    title: { text: title, frame: 'bounds' },
    data: { values },
    columns: 1,
    facet: { field: 'row', type: 'nominal', title: null, sort: rows.map((row) => row.title) },
    resolve: { scale: { x: 'independent', y: 'independent' } },
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
