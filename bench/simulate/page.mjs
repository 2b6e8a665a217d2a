import { fileURLToPath } from 'node:url'
import { percent } from '../accuracy/page.mjs'
import { svg, WIDTH } from '../../docs/plot/svg.mjs'
import { markdown, writeResults } from '../docs/write.mjs'

/** The figures of the last whole run. */
export const KEPT = fileURLToPath(new URL('../results/simulation.json', import.meta.url))

const whole = (number) => Math.round(number).toLocaleString('en')
const fine = (number) => (number < 0.1 ? number.toFixed(3) : number.toFixed(2))
const times = (load) => `${load} ×`

/** A difference with its sign. */
function signed(share) {
  return share > 0 ? `+${percent(share)}` : percent(share)
}

/** Columns of a table: each has a head, and a text of a row. */
const columns = {
  processes: ['processes', (row) => whole(row.processes)],
  load: ['load', (row) => times(row.load)],
  trips: (method) => [`trips, ${TITLES[method]}`, (row) => fine(row[method].trips)],
  waits: (method) => [`wait, ${TITLES[method]}`, (row) => percent(row[method].waits)],
  operations: (method) => [`operations a second, ${TITLES[method]}`, (row) => whole(row[method].operations)],
  difference: (method) => [`admitted, ${TITLES[method]}`, (row) => signed(row[method].difference)],
  overshoot: (method) => [`overshoot, ${TITLES[method]}`, (row) => percent(row[method].overshoot)],
  fairness: (method) => [`fairness, ${TITLES[method]}`, (row) => row[method].fairness.toFixed(3)],
  waste: (method) => [`waste, ${TITLES[method]}`, (row) => percent(row[method].waste)],
  most: (method) => [`most in a second, ${TITLES[method]}`, (row) => whole(row[method].mostInWindow)],
}

const TITLES = {
  exact: 'exact',
  lease: 'leases',
  reports: 'reports',
  shares: 'shares',
  cached: 'leases and denyCache',
  'bursty lease': 'bursty',
}

const COUNTED = ['lease', 'reports', 'shares']

function table(title, rows, chosen) {
  return { title, head: chosen.map(([head]) => head), lines: rows.map((row) => chosen.map(([, text]) => text(row))) }
}

/** All tables, as the command prints them. Each row of the results is a line of one of them. */
export function tablesOf({ parts }) {
  const { oneKey = [], begin = [], growing = [], options = [], manyKeys = [], algorithms = [] } = parts
  const { processes, load } = columns
  const network = ['network', (row) => `${row.network} ms`]
  const traffics = [...new Set(oneKey.map(({ traffic }) => traffic))]
  const all = [
    table('A quota of 100 a second for each process', growing, [
      processes,
      load,
      ['requests a second', (row) => whole(row.exact.requests)],
      ...['exact', 'lease', 'reports'].map(columns.operations),
      columns.trips('lease'),
      columns.waits('lease'),
      ...COUNTED.map(columns.difference),
      ...COUNTED.map(columns.overshoot),
    ]),
    table('Many keys, each with a quota of 1,000 a second', manyKeys, [
      processes,
      ['keys', ({ keys }) => whole(keys)],
      ['a key reaches', ({ isRouted }) => (isRouted ? 'one process' : 'any process')],
      ['requests a second', (row) => whole(row.exact.requests)],
      ...['exact', 'lease'].map(columns.operations),
      columns.trips('lease'),
      columns.waits('lease'),
      ['trips, reports', (row) => (row.reports ? fine(row.reports.trips) : '')],
      ...COUNTED.map((method) => {
        const [head, text] = columns.difference(method)
        return [head, (row) => (row[method] ? text(row) : '')]
      }),
      ...COUNTED.map((method) => {
        const [head, text] = columns.overshoot(method)
        return [head, (row) => (row[method] ? text(row) : '')]
      }),
    ]),
    table('`for` and `share`, at 0.9 × the quota of 1,000 a second', options, [
      processes,
      ['for', (row) => row.for],
      ['share', ({ share }) => String(share)],
      columns.trips('lease'),
      columns.waits('lease'),
      columns.difference('lease'),
      columns.waste('lease'),
      ...['trips', 'waits', 'difference', 'waste'].map((figure) => columns[figure]('bursty lease')),
    ]),
    table('Algorithms, 20 processes, a quota of 1,000 a second', algorithms, [
      ['', ({ algorithm }) => algorithm],
      load,
      ...['lease', 'cached'].map(columns.trips),
      ...['exact', 'lease', 'cached'].map(columns.most),
      ...['lease', 'cached'].map(columns.difference),
    ]),
    table('An overload begins: the first 10 seconds, with the whole quota unused', begin, [
      processes,
      load,
      ...['lease', 'reports'].map(columns.trips),
      ...COUNTED.map(columns.difference),
      ...COUNTED.map(columns.overshoot),
    ]),
    ...traffics.map((traffic) =>
      table(
        `One key, a quota of 1,000 a second, ${traffic} traffic`,
        oneKey.filter((row) => row.traffic === traffic),
        [
          processes,
          network,
          load,
          ...['lease', 'reports'].map(columns.trips),
          columns.waits('lease'),
          ...COUNTED.map(columns.difference),
          ...COUNTED.map(columns.overshoot),
          ...['exact', ...COUNTED].map(columns.fairness),
          columns.waste('lease'),
        ],
      ),
    ),
  ]
  return all.filter(({ lines }) => lines.length > 0)
}

/** The tables of the page: a small part of the results, with the figures that a reader needs to choose. */
export function pageTablesOf({ parts: { oneKey, growing, manyKeys, algorithms } }) {
  const { processes, load, operations, trips, waits, difference, overshoot } = columns
  const known = ['steady', 'bursty']
  return [
    table(
      'One key, a quota of 1,000 a second, 5 ms of network',
      oneKey.filter(
        (row) =>
          row.network === 5 &&
          known.includes(row.traffic) &&
          [1, 20, 1000].includes(row.processes) &&
          row.load !== 1.05,
      ),
      [
        ['traffic', ({ traffic }) => traffic],
        processes,
        load,
        ...['lease', 'reports'].map(trips),
        ...COUNTED.map(difference),
        ...['lease', 'reports'].map(overshoot),
      ],
    ),
    table(
      'A quota of 100 a second for each process, at 0.9 × the quota',
      growing.filter((row) => row.load === 0.9),
      [processes, ...['exact', 'lease', 'reports'].map(operations), trips('lease'), waits('lease')],
    ),
    table(
      '100,000 requests a second of a million keys',
      manyKeys.filter((row) => [1, 20, 1000].includes(row.processes)),
      [
        processes,
        ['a key reaches', ({ isRouted }) => (isRouted ? 'one process' : 'any process')],
        trips('lease'),
        difference('lease'),
      ],
    ),
    table(
      'Algorithms at 1.5 × the quota, 20 processes',
      algorithms.filter((row) => row.load === 1.5),
      [['', ({ algorithm }) => algorithm], ...['lease', 'cached'].map(trips), ...['lease', 'cached'].map(difference)],
    ),
  ]
}

/** Writes the results into the page, and the plots. Returns the names of the files. */
export async function writePage(results) {
  const drawn = await plots(results)
  return writeResults('internals/leases.md', 'npm run simulate', drawn, sections(results, drawn))
}

function sections(results, drawn) {
  const images = drawn.map(({ name, title }) => `![${title}](../img/${name})`)
  const tables = pageTablesOf(results).map(({ title, head, lines }) => `### ${title}\n\n${markdown(head, lines)}`)
  return [`${results.when}; seed ${results.seed}.`, ...images, ...tables]
}

const COLOURS = { exact: '#7d7d7d', leases: '#b2182b', reports: '#2166ac', shares: '#e08214' }

function chart(text, rest) {
  return { title: { text, frame: 'bounds' }, ...rest }
}

/** A panel for each value of `panel`: a line for each method by the number of processes. */
function lines(title, values, y) {
  return chart(title, {
    data: { values },
    columns: 1,
    facet: { field: 'panel', type: 'nominal', title: null, sort: [...new Set(values.map(({ panel }) => panel))] },
    spec: {
      width: WIDTH,
      height: 170,
      mark: { type: 'line', point: { size: 40 } },
      encoding: {
        x: {
          field: 'processes',
          type: 'quantitative',
          scale: { type: 'log' },
          axis: { values: SIZES, format: ',d', grid: false, labelOverlap: false },
        },
        y: { field: 'value', type: 'quantitative', ...y },
        color: {
          field: 'method',
          type: 'nominal',
          scale: { domain: Object.keys(COLOURS), range: Object.values(COLOURS) },
        },
      },
    },
  })
}

const SIZES = [1, 4, 20, 100, 1000, 10_000]

/**
 * Draws the plots of the results.
 * @returns {Promise<{ name: string, title: string, svg: string }[]>}
 */
export async function plots({ parts }) {
  const drawn = specs(parts).map(async ({ name, spec }) => ({ name, title: spec.title.text, svg: await svg(spec) }))
  return Promise.all(drawn)
}

function specs({ oneKey, growing, options }) {
  const of = (rows, panel, methods, figure) =>
    rows.flatMap((row) =>
      methods.map((method) => ({
        panel: panel(row),
        processes: row.processes,
        method: TITLES[method],
        value: figure(row[method]),
      })),
    )
  const near = oneKey.filter(({ network }) => network === 5)
  const steady = near.filter(({ traffic, load }) => traffic === 'steady' && load === 0.9)
  const all = ['exact', ...COUNTED]
  const trips = (figures) => figures.trips
  return [
    {
      name: 'simulate-trips.svg',
      spec: lines(
        'Trips to the store for each decision, steady traffic',
        [
          ...of(steady, () => '900 requests a second in all', all, trips),
          ...of(
            growing.filter(({ load }) => load === 0.9),
            () => '90 requests a second in each process',
            all,
            trips,
          ),
        ],
        { title: 'trips' },
      ),
    },
    {
      name: 'simulate-overshoot.svg',
      spec: lines(
        'Overshoot at 1.5 × the quota',
        of(
          near.filter(({ load }) => load === 1.5),
          ({ traffic }) => traffic,
          all,
          (figures) => 100 * figures.overshoot,
        ),
        { title: '% of the quota', scale: { type: 'symlog' }, axis: { values: [0, 3, 10, 30, 100, 300, 1000] } },
      ),
    },
    {
      name: 'simulate-admitted.svg',
      spec: lines(
        'Admitted at 0.9 × the quota, against exact decisions',
        of(
          near.filter(({ load }) => load === 0.9),
          ({ traffic }) => traffic,
          all,
          (figures) => 100 * (1 + figures.difference),
        ),
        { title: '%' },
      ),
    },
    {
      name: 'simulate-for.svg',
      spec: optionsPlot(options),
    },
  ]
}

/** What a longer lease saves. */
function optionsPlot(rows) {
  const values = rows
    .filter(({ share }) => share === 0.1)
    .flatMap((row) =>
      ['lease', 'bursty lease'].map((name) => ({
        for: row.for,
        processes: `${whole(row.processes)} processes`,
        traffic: name === 'lease' ? 'steady' : 'bursty',
        value: row[name].trips,
      })),
    )
  return chart('Trips by `for`: 900 a second, share 0.1', {
    data: { values },
    columns: 1,
    facet: {
      field: 'processes',
      type: 'nominal',
      title: null,
      sort: [...new Set(values.map(({ processes }) => processes))],
    },
    spec: {
      width: WIDTH,
      height: 120,
      mark: { type: 'line', point: { size: 40 } },
      encoding: {
        x: {
          field: 'for',
          type: 'ordinal',
          title: 'for',
          sort: [...new Set(rows.map((row) => row.for))],
          axis: { labelAngle: 0 },
        },
        y: { field: 'value', type: 'quantitative', title: 'trips' },
        color: {
          field: 'traffic',
          type: 'nominal',
          scale: { domain: ['steady', 'bursty'], range: ['#b2182b', '#2166ac'] },
        },
      },
    },
  })
}
