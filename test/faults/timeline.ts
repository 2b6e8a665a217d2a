import type { TopLevelSpec } from 'vega-lite'
import { svg, WIDTH } from '../../docs/plot/svg.mjs'
import type { Event, Result } from '../support/faults/experiment.ts'

/** Milliseconds of a bar. */
const BIN = 100
const REDIS = 'decided by Redis'
const LOCAL = 'decided in this process'

/** The decisions of a tenth of a second, and the slowest of them in milliseconds. `at` is in seconds since the fault began. */
interface Bin {
  readonly at: number
  readonly by: string
  readonly perSecond: number
  readonly slowest: number
}

/** What a picture of an outage shows. */
export interface Timeline {
  readonly deadline: number
  readonly bins: readonly Bin[]
  readonly events: readonly { readonly at: number; readonly what: string }[]
}

const WORDS: Record<Event['what'], string> = {
  begin: 'Redis is frozen',
  end: 'Redis is thawed',
  away: 'the guard opens',
  slow: 'answers come late',
  healthy: 'the guard closes',
}

/** Returns the timeline of an experiment. */
export function timelineOf(deadline: number, { samples, events }: Result): Timeline {
  const began = events.find(({ what }) => what === 'begin')!.at
  const bins = new Map<string, { at: number; by: string; perSecond: number; slowest: number }>()
  for (const { at, ms, degraded } of samples) {
    const bin = Math.floor((at - began) / BIN)
    const by = degraded === undefined ? REDIS : LOCAL
    const own = bins.get(`${bin} ${by}`) ?? { at: (bin * BIN) / 1000, by, perSecond: 0, slowest: 0 }
    own.perSecond += 1000 / BIN
    own.slowest = Math.max(own.slowest, Number(ms.toPrecision(3)))
    bins.set(`${bin} ${by}`, own)
  }
  const named = events.map(({ at, what }) => ({ at: Math.round(at - began) / 1000, what: WORDS[what] }))
  const sorted = [...bins.values()].toSorted((a, b) => a.at - b.at)
  // The first and the last tenth are not complete.
  const isWhole = ({ at }: Bin): boolean => at > sorted[0]!.at && at < sorted.at(-1)!.at
  return { deadline, bins: sorted.filter(isWhole), events: named }
}

/** Draws a timeline. Equal data make equal bytes. */
export function drawn(timeline: Timeline): Promise<string> {
  return svg({ vconcat: [decisions(timeline), latencies(timeline)], spacing: 16 })
}

type Panel = Extract<TopLevelSpec, { vconcat: unknown }>['vconcat'][number]
type Layer = Extract<Panel, { layer: unknown }>['layer'][number]

const size = { width: WIDTH, height: 150 }
const colour = {
  field: 'by',
  type: 'nominal' as const,
  title: null,
  scale: { domain: [REDIS, LOCAL], range: ['#2166ac', '#e08214'] },
}

/** The first and the last second. */
function spanOf({ bins }: Timeline): [number, number] {
  return [bins[0]!.at, bins.at(-1)!.at + BIN / 1000]
}

function time(timeline: Timeline) {
  const scale = { domain: spanOf(timeline), nice: false }
  const axis = { labelExpr: "datum.value + ' s'", grid: false }
  return { field: 'at', type: 'quantitative' as const, title: null, scale, axis }
}

function decisions(timeline: Timeline): Panel {
  const values = timeline.bins.map((bin) => ({ ...bin, until: bin.at + BIN / 1000 }))
  // With room for the names of events above the bars.
  const top = 1.3 * Math.max(...timeline.bins.map(({ perSecond }) => perSecond))
  return {
    title: { text: 'Decisions per second' },
    ...size,
    layer: [
      {
        data: { values },
        mark: { type: 'bar', binSpacing: 0 },
        encoding: {
          x: { ...time(timeline), bin: 'binned' },
          x2: { field: 'until' },
          y: { field: 'perSecond', type: 'quantitative', title: null, stack: 'zero', scale: { domain: [0, top] } },
          color: colour,
        },
      },
      ...moments(timeline),
    ],
  }
}

function latencies(timeline: Timeline): Panel {
  const values = timeline.bins.map((bin) => ({ ...bin, at: bin.at + BIN / 2000 }))
  const y = {
    type: 'quantitative' as const,
    title: null,
    scale: { type: 'log' as const, domain: [0.01, 1000], nice: false },
    axis: { values: [0.01, 0.1, 1, 10, 100, 1000], labelExpr: "datum.value + ' ms'" },
  }
  return {
    title: {
      text: 'The slowest decision of each tenth of a second',
      subtitle: `Dashed: the deadline, ${timeline.deadline} ms`,
    },
    ...size,
    layer: [
      {
        data: { values },
        mark: { type: 'point', filled: true, size: 30, opacity: 1 },
        encoding: { x: time(timeline), y: { ...y, field: 'slowest' }, color: colour },
      },
      {
        data: { values: [{ deadline: timeline.deadline }] },
        mark: { type: 'rule', strokeDash: [6, 3], color: '#b2182b' },
        encoding: { y: { ...y, field: 'deadline' } },
      },
      ...moments(timeline),
    ],
  }
}

/** A line for each event, with its name next to it. Changes of the guard come soon after their cause, so they are lower. */
function moments(timeline: Timeline): Layer[] {
  const values = timeline.events.map((event) => ({ ...event, height: event.what.startsWith('Redis') ? 10 : 26 }))
  const x = time(timeline)
  const label = { align: 'left' as const, dx: 4, fontSize: 13 }
  return [
    { data: { values }, mark: { type: 'rule', color: '#444' }, encoding: { x } },
    {
      data: { values },
      mark: { type: 'text', ...label, fill: '#222', stroke: null },
      encoding: { x, y: { field: 'height', type: 'quantitative', scale: null }, text: { field: 'what' } },
    },
  ]
}
