import { svg, WIDTH } from '../../docs/plot/svg.mjs'
import { markdown, writeResults } from '../docs/write.mjs'

/** The tables of the page. */
export function tablesOf({ requests, algorithms, counters, costs }) {
  const of = (share) => percent(share / requests)
  const logs = algorithms.map((each) => [
    each.name,
    of(each.denied),
    of(each.tooStrict),
    of(each.tooLenient),
    of(each.tooStrict + each.tooLenient),
  ])
  const windows = algorithms.map((each) => [each.name, String(each.worst), of(each.ownLenient), of(each.ownStrict)])
  const prices = costs.map((each) => [
    each.name,
    each.bytesAfterOne.toFixed(0),
    each.bytesAfterQuota.toFixed(0),
    each.nanoseconds.toFixed(0),
  ])
  const published = counters.map((each) => [
    `${each.quota} in ${each.seconds} s`,
    percent(each.above),
    percent(each.tooStrict + each.tooLenient),
    percent(each.tooStrict),
    percent(each.tooLenient),
    percent(each.difference),
    each.sourcesOver.toLocaleString('en'),
    each.sourcesMissed.toLocaleString('en'),
    each.sourcesLimitedBelow.toLocaleString('en'),
  ])
  return [
    {
      title: 'Against a sliding log that decides the same traffic',
      head: ['', 'denied', 'too strict', 'too lenient', 'different'],
      lines: logs,
    },
    {
      title: 'Against the requests that the algorithm itself admitted',
      head: ['', 'most in any minute', 'admitted beyond 100', 'denied below 100'],
      lines: windows,
    },
    {
      title: 'Cost',
      head: ['', 'bytes per key after 1 request', 'after 100 requests', 'ns per decision'],
      lines: prices,
    },
    {
      title: 'Two counters that count every request, against the exact number',
      head: [
        'limit',
        'above the limit',
        'wrong',
        'too strict',
        'too lenient',
        'mean difference',
        'sources above',
        'of these never limited',
        'limited, but never above',
      ],
      lines: published,
    },
  ]
}

/** Writes the results into the page, and the plots. Returns the names of the files. */
export async function writePage(results) {
  const drawn = await plots(results)
  return writeResults('internals/accuracy.md', 'npm run accuracy', drawn, sections(results, drawn))
}

function sections(results, drawn) {
  const { when, requests, seed, machine } = results
  const run = [when, `${requests.toLocaleString('en')} requests`, `seed ${seed}`]
  const tables = tablesOf(results).map(({ title, head, lines }) => `### ${title}\n\n${markdown(head, lines)}`)
  const images = drawn.map(({ name, title }) => `![${title}](../img/${name})`)
  return [`${[...run, ...Object.values(machine)].join('; ')}.`, ...images, ...tables]
}

/**
 * Draws the plots of the results.
 * @returns {Promise<{ name: string, title: string, svg: string }[]>}
 */
export async function plots(results) {
  const drawn = specs(results).map(async ({ name, spec }) => ({ name, title: spec.title.text, svg: await svg(spec) }))
  return Promise.all(drawn)
}

function specs({ requests, algorithms }) {
  const sort = algorithms.map(({ name }) => name)
  const different = algorithms.flatMap((each) => [
    { name: each.name, kind: 'too strict', share: (100 * each.tooStrict) / requests },
    { name: each.name, kind: 'too lenient', share: (100 * each.tooLenient) / requests },
  ])
  // A label such as `gcra, burst 50` has two lines.
  const axis = { labelExpr: "split(datum.label, ', ')" }
  const y = { field: 'name', type: 'nominal', title: null, sort, axis }
  const colour = {
    field: 'kind',
    type: 'nominal',
    title: null,
    scale: { domain: ['too strict', 'too lenient'], range: ['#2166ac', '#e08214'] },
  }
  return [
    {
      name: 'accuracy-different.svg',
      spec: {
        title: titled('Requests that an exact log decides differently'),
        data: { values: different },
        width: WIDTH - 130,
        height: { step: 36 },
        mark: 'bar',
        encoding: {
          y,
          x: { field: 'share', type: 'quantitative', title: '% of all requests', stack: 'zero' },
          color: colour,
        },
      },
    },
    {
      name: 'accuracy-worst.svg',
      spec: {
        title: titled('Most admitted in any minute, with a quota of 100'),
        data: { values: algorithms.map(({ name, worst }) => ({ name, worst })) },
        width: WIDTH - 130,
        height: { step: 36 },
        mark: { type: 'bar', color: '#2166ac' },
        encoding: { y, x: { field: 'worst', type: 'quantitative', title: 'requests' } },
      },
    },
  ]
}

function titled(text) {
  return { text, frame: 'bounds' }
}

/** Two significant digits, or more for a larger share: `0.0031 %`, `12.3 %`. */
export function percent(share) {
  const value = 100 * share
  if (value === 0) return '0 %'
  return `${value >= 10 ? value.toFixed(1) : Number(value.toPrecision(2))} %`
}
