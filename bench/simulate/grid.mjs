import { ALGORITHMS } from './simulation.mjs'

/** A limit of 1,000 a second for each key, unless a part of the grid says otherwise. */
const QUOTA = 1000
/** Requests a second that one process receives in the part that grows with the number of processes. */
export const PER_PROCESS = 100
/** About so many requests are simulated in a cell of a large site. */
const MOST_REQUESTS = 1_200_000

const METHODS = ['exact', 'lease', 'reports', 'shares']

/**
 * The grid. A part has points, and each point is simulated with several methods, under the same requests.
 * @param {{ quick: boolean, seed: number }} options
 * @returns {Record<string, { point: object, cells: import('./simulation.mjs').Cell[] }[]>}
 */
export function gridOf({ quick, seed }) {
  const sizes = quick ? [1, 20, 1000] : [1, 4, 20, 100, 1000, 10_000]
  const loads = quick ? [0.9, 1.5] : [0.9, 1.05, 1.5]
  const base = {
    keys: 1,
    traffic: 'steady',
    network: 5,
    quota: QUOTA,
    warmUp: quick ? 1 : 2,
    seconds: quick ? 2 : 20,
    seed,
  }

  /** A cell for each method. The quota is used up where the load is above it, as it is after a while. */
  function point(label, given, methods = METHODS) {
    const { load = 0.9, ...rest } = given
    const all = { ...base, ...rest }
    const cell = { rate: load * all.quota, drained: load > 1, ...all }
    const cells = methods.map((method) => (typeof method === 'string' ? { ...cell, method } : { ...cell, ...method }))
    return { point: label, cells }
  }

  const each = (...lists) => lists.reduce((rows, list) => rows.flatMap((row) => list.map((one) => [...row, one])), [[]])

  return {
    oneKey: each(['steady', 'bursty', 'diurnal', 'skewed'], sizes, quick ? [5] : [0.2, 5, 50], loads).map(
      ([traffic, processes, network, load]) => {
        const seconds = processes > 1000 ? base.seconds / 2 : base.seconds
        return point({ traffic, processes, network, load }, { traffic, processes, network, load, seconds })
      },
    ),

    // An overload begins: the whole quota is there, and the run is measured from its first request.
    begin: each(
      sizes,
      loads.filter((load) => load > 1),
    ).map(([processes, load]) =>
      point({ processes, load }, { processes, load, drained: false, warmUp: 0, seconds: quick ? 2 : 10 }),
    ),

    growing: each(
      sizes,
      loads.filter((load) => load !== 1.05),
    ).map(([processes, load]) => {
      const rate = load * PER_PROCESS * processes
      // Twice the length of a lease is enough for each process to know its traffic.
      const warmUp = rate > 200_000 ? 0.5 : 1
      const seconds = Math.min(base.seconds, Math.max(0.5, MOST_REQUESTS / rate - warmUp))
      return point({ processes, load }, { processes, load, quota: PER_PROCESS * processes, warmUp, seconds })
    }),

    options: each(
      quick ? [20] : [4, 20, 100, 1000],
      quick ? ['250ms'] : ['50ms', '100ms', '250ms', '1s', '5s'],
      quick ? [0.1] : [0.02, 0.1, 0.3],
    ).map(([processes, length, share]) =>
      point({ processes, for: length, share }, { processes, warmUp: quick ? 1 : 10, options: { for: length, share } }, [
        'exact',
        'lease',
        { name: 'bursty exact', method: 'exact', traffic: 'bursty' },
        { name: 'bursty lease', method: 'lease', traffic: 'bursty' },
      ]),
    ),

    manyKeys: each(quick ? [20] : sizes, quick ? [false] : [false, true]).map(([processes, isRouted]) => {
      const keys = quick ? 10_000 : 1_000_000
      const rate = quick ? 20_000 : 100_000
      const given = { processes, isRouted, keys, rate, warmUp: 1, seconds: quick ? 1 : 2 }
      return point({ processes, keys, isRouted }, given, isRouted ? ['exact', 'lease'] : METHODS)
    }),

    algorithms: each(Object.keys(ALGORITHMS), quick ? [1.5] : [0.9, 1.5]).map(([algorithm, load]) =>
      point({ algorithm, load }, { algorithm, load, processes: 20, drained: false }, [
        'exact',
        'lease',
        { name: 'cached', method: 'lease', denyCache: true },
      ]),
    ),
  }
}

/** What a point of the grid says about each of its methods, against exact decisions where they are in it. */
export function rowOf({ point, cells }, figures) {
  const row = { ...point }
  for (const [i, cell] of cells.entries()) {
    const name = cell.name ?? cell.method
    const before = cells.findIndex(({ method, traffic }) => method === 'exact' && traffic === cell.traffic)
    row[name] = summary(cell, figures[i], figures[before])
  }
  return row
}

function summary({ quota, seconds }, figures, exact) {
  const { requests, admitted, waited, trips, operations, charged, returned } = figures
  return {
    /** Messages to the store for each decision. */
    trips: trips / requests,
    /** The share of requests that waited for the store. */
    waits: waited / requests,
    /** What the store did in a second. */
    operations: operations / seconds,
    requests: requests / seconds,
    /** Admitted requests beyond those that exact decisions admit; negative for those held back. */
    difference: admitted / exact.admitted - 1,
    /** The most beyond what the quota permits in any interval, as a share of the quota. */
    overshoot: figures.excess / quota,
    mostInWindow: figures.mostInWindow,
    fairness: figures.fairness,
    /** The share of charged units that were neither used nor usable again. */
    waste: charged === 0 ? 0 : Math.max(0, (charged - returned - admitted) / charged),
    overdrawn: figures.overdrawn,
  }
}
