import type { Limit } from 'sluice'
import type { TopLevelSpec } from 'vega-lite'
import { decide, mostWithin, type Request } from './decide.ts'
import { WIDTH } from './svg.ts'
import { aroundAnEdge, QUOTA, SECONDS, WINDOW } from './traffic.ts'

const HEIGHT = 130

/** The most that a panel has room for. */
const TOP = 20

/** People with colour blindness can distinguish blue and orange. Hollow and filled marks differ without colour. */
const ADMITTED = 'admitted'
const DENIED = 'denied'
const COUNT = 'the last 10 s together'
const ALLOWED = 'quota: 10 in 10 s'
const colour = {
  type: 'nominal' as const,
  title: null,
  scale: { domain: [ADMITTED, DENIED, COUNT, ALLOWED], range: ['#2166ac', '#e08214', '#444444', '#b2182b'] },
  legend: { symbolType: 'square', symbolStrokeWidth: 2 },
}

/** The colours of pictures without a line and a quota. */
const verdict = { ...colour, scale: { domain: [ADMITTED, DENIED], range: ['#2166ac', '#e08214'] } }

/** What a picture is put together from. */
export type Panel = Extract<TopLevelSpec, { vconcat: unknown }>['vconcat'][number]
type Layer = Extract<Panel, { layer: unknown }>['layer'][number]

const time = timeBetween(0, SECONDS)

function timeBetween(from: number, until: number) {
  return {
    field: 'second',
    type: 'quantitative' as const,
    title: null,
    scale: { domain: [from, until], nice: false },
    axis: {
      values: from === 0 ? every(WINDOW, until) : [from, WINDOW, until],
      labelExpr: "datum.value + ' s'",
      gridDash: [3, 3],
      gridColor: '#bdbdbd',
    },
  }
}

const requests = {
  type: 'quantitative' as const,
  title: 'requests',
  scale: { domain: [0, TOP], nice: false },
  axis: { values: [0, 5, 10, 15, 20] },
}

/** Each request a square, above the second in which it came, and how many were admitted within a window until then. */
export function arrivals(title: string, limits: readonly Limit[]): Panel {
  const decided = decide(limits)
  const admitted = decided.filter(({ allowed }) => allowed).map(({ at }) => at)
  return {
    title: told(title, admitted, decided.length),
    width: WIDTH,
    height: HEIGHT,
    layer: [quotaRule(), squares(stacked(decided, ({ at }) => at)), countLine(admitted)],
  }
}

/** Two whole quotas, one just before a window ends and one just after. */
export function edge(title: string, limits: readonly Limit[]): Panel {
  const decided = decide(limits, aroundAnEdge)
  const count = decided.filter(({ allowed }) => allowed).length
  return {
    title: { text: title, subtitle: `${count} of ${decided.length} requests pass within two seconds` },
    width: WIDTH,
    height: HEIGHT,
    layer: [
      squares(
        stacked(decided, ({ at }) => at),
        {
          x: timeBetween(WINDOW - 5, WINDOW + 5),
          y: { ...requests, scale: { domain: [0, 11], nice: false }, axis: { values: [0, 5, 10] } },
          color: verdict,
        },
        80,
      ),
    ],
  }
}

/** The same, when they went on: each waited for its turn. */
export function departures(title: string, limits: readonly Limit[]): Panel {
  const gone = decide(limits).filter(({ allowed }) => allowed)
  const times = gone.map(({ goesOn }) => goesOn)
  return {
    title: { text: title, subtitle: `most within any 10 s: ${mostWithin(times, WINDOW * 1000)}` },
    width: WIDTH,
    height: HEIGHT,
    layer: [quotaRule(), squares(stacked(gone, ({ goesOn }) => goesOn)), countLine(times)],
  }
}

/** A line for each admitted request, from when it came, above, to when it went on, below. */
export function waits(title: string, limits: readonly Limit[]): Panel {
  const gone = decide(limits).filter(({ allowed }) => allowed)
  const values = gone.map(({ at, goesOn }) => ({
    second: at / 1000,
    until: goesOn / 1000,
    came: 1,
    went: 0,
    what: ADMITTED,
  }))
  return {
    title: { text: title },
    width: WIDTH,
    height: 90,
    data: { values },
    mark: { type: 'rule', strokeWidth: 1, opacity: 0.8 },
    encoding: {
      x: time,
      x2: { field: 'until' },
      y: {
        field: 'came',
        type: 'quantitative',
        title: null,
        scale: { domain: [0, 1] },
        axis: { values: [0, 1], labelExpr: "datum.value === 1 ? 'came' : 'went on'", grid: false },
      },
      y2: { field: 'went' },
      color: { field: 'what', ...colour },
    },
  }
}

/** A row of bars: the requests of each second, admitted and denied. */
export function bars(title: string, limits: readonly Limit[]): Panel {
  const decided = decide(limits)
  const count = decided.filter(({ allowed }) => allowed).length
  return {
    title: { text: `${title}: ${count} of ${decided.length} admitted`, fontSize: 14, offset: 4 },
    width: WIDTH,
    height: 44,
    data: { values: perSecond(decided) },
    mark: { type: 'bar', binSpacing: 1 },
    encoding: {
      x: { ...time, bin: 'binned' },
      x2: { field: 'next' },
      y: {
        ...requests,
        field: 'count',
        title: null,
        scale: { domain: [0, 12] },
        axis: { values: [0, 6, 12] },
        stack: 'zero',
      },
      color: { field: 'what', ...verdict },
      order: { field: 'order' },
    },
  }
}

function told(text: string, admitted: readonly number[], of: number): { text: string; subtitle: string } {
  return {
    text,
    subtitle: `${admitted.length} of ${of} admitted, most within any 10 s: ${mostWithin(admitted, WINDOW * 1000)}`,
  }
}

interface Square {
  readonly second: number
  readonly height: number
  readonly what: string
}

/** One above the other, in the second of their time. */
function stacked(list: readonly Request[], timeOf: (request: Request) => number): Square[] {
  const heights = new Map<number, number>()
  return list.map((request) => {
    const second = Math.floor(timeOf(request) / 1000)
    const height = heights.get(second) ?? 0
    heights.set(second, height + 1)
    return { second: second + 0.5, height: height + 0.5, what: request.allowed ? ADMITTED : DENIED }
  })
}

function squares(values: readonly Square[], look = { x: time, y: requests, color: colour }, size = 26): Layer {
  const encoding = { x: look.x, y: { ...look.y, field: 'height' }, color: { field: 'what', ...look.color } }
  return {
    data: { values },
    encoding,
    layer: [
      {
        transform: [{ filter: `datum.what === '${ADMITTED}'` }],
        mark: { type: 'point', shape: 'square', filled: true, size, opacity: 1 },
      },
      {
        transform: [{ filter: `datum.what === '${DENIED}'` }],
        mark: { type: 'point', shape: 'square', filled: false, size, strokeWidth: 1.5, opacity: 1 },
      },
    ],
  }
}

/** How many of `times` lie within the window that ends now: a step up at each, and one down a window later. */
function countLine(times: readonly number[]): Layer {
  const ends = times.map((at) => at + WINDOW * 1000)
  const changes = [...new Set([0, ...times, ...ends, SECONDS * 1000])].filter((at) => at <= SECONDS * 1000)
  const values = changes
    .toSorted((a, b) => a - b)
    .map((now) => ({
      second: now / 1000,
      height: times.filter((at) => at <= now && at > now - WINDOW * 1000).length,
      what: COUNT,
    }))
  return {
    data: { values },
    mark: { type: 'line', interpolate: 'step-after', strokeWidth: 1.5 },
    encoding: { x: time, y: { ...requests, field: 'height' }, color: { field: 'what', ...colour } },
  }
}

function quotaRule(): Layer {
  return {
    data: { values: [{ height: QUOTA, what: ALLOWED }] },
    mark: { type: 'rule', strokeDash: [6, 3], strokeWidth: 1 },
    encoding: { y: { ...requests, field: 'height' }, color: { field: 'what', ...colour } },
  }
}

interface Bar {
  readonly second: number
  readonly next: number
  readonly what: string
  readonly order: number
  readonly count: number
}

function perSecond(decided: readonly Request[]): Bar[] {
  const seconds = [...new Set(decided.map(({ at }) => Math.floor(at / 1000)))]
  const bars = seconds.flatMap((second) =>
    [ADMITTED, DENIED].map((what, order) => ({
      second,
      next: second + 1,
      what,
      order,
      count: decided.filter(({ at, allowed }) => allowed === (what === ADMITTED) && Math.floor(at / 1000) === second)
        .length,
    })),
  )
  return bars.filter(({ count }) => count > 0)
}

function every(step: number, until: number): number[] {
  return Array.from({ length: until / step + 1 }, (_, i) => i * step)
}
