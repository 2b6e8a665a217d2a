// Traffic that can be generated again: the same seed gives the same requests, on every machine.
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'

/** How requests come. Every figure of the report depends on these numbers. */
export const SHAPE = {
  sources: 270_000,
  /** Requests per second of all sources together. */
  rate: 1200,
  /** Sources differ in their rate by a Pareto distribution with this index. Smaller is more unequal. */
  sourceIndex: 1.2,
  /** The busiest source makes at most this share of all bursts. */
  largestShare: 0.00003,
  /** The number of requests in a burst has a Pareto distribution with this index, and at most this many requests. */
  burstIndex: 1.5,
  largestBurst: 300,
  /** The mean gap between the requests of one burst is between these, in microseconds; its logarithm is uniform. */
  shortestGap: 5000,
  longestGap: 5_000_000,
}

/** So many requests are generated at a time. */
export const BATCH = 65_536

/** 2026-01-01, in microseconds. */
const BEGIN = 1_767_225_600_000_000

/**
 * Fills `times` (epoch microseconds, never decreasing) and `sources` with the next requests of a seeded stream.
 * @param {number} seed
 * @returns {(times: Float64Array, sources: Uint32Array) => void}
 */
export function traffic(seed) {
  const random = uniform(seed)
  const pick = alias(weights(random), random)
  const bursts = burstHeap()
  const betweenBursts = (1e6 * meanBurst()) / SHAPE.rate
  let nextBurst = BEGIN

  function begin(time) {
    bursts.push(time, pick(), burstLength(random), gapOf(random))
    nextBurst += Math.ceil(exponential(random, betweenBursts))
  }

  return function fill(times, sources) {
    for (let i = 0; i < times.length; i++) {
      while (bursts.earliest() >= nextBurst) begin(nextBurst)
      times[i] = bursts.earliest()
      sources[i] = bursts.source()
      bursts.advance((gap) => Math.ceil(exponential(random, gap)))
    }
  }
}

/** Numbers from 0 up to 1, without 1. */
export function uniform(seed) {
  const generator = xoroshiro128plus(seed)
  return () => (generator.next() >>> 0) / 2 ** 32
}

export function exponential(random, mean) {
  return -mean * Math.log(1 - random())
}

function pareto(random, index) {
  return (1 - random()) ** (-1 / index)
}

function burstLength(random) {
  return Math.min(SHAPE.largestBurst, Math.floor(pareto(random, SHAPE.burstIndex)))
}

/** The mean of `burstLength`: the sum of the probabilities of at least 1, 2, 3, … requests. */
function meanBurst() {
  let mean = 0
  for (let length = 1; length <= SHAPE.largestBurst; length++) mean += length ** -SHAPE.burstIndex
  return mean
}

function gapOf(random) {
  return SHAPE.shortestGap * (SHAPE.longestGap / SHAPE.shortestGap) ** random()
}

function weights(random) {
  const all = Float64Array.from({ length: SHAPE.sources }, () => pareto(random, SHAPE.sourceIndex))
  const most = SHAPE.largestShare * all.reduce((sum, each) => sum + each, 0)
  return all.map((each) => Math.min(each, most))
}

/** Picks an index by weight in constant time: the alias method of Walker and Vose (doi:10.1109/32.92917). */
export function alias(weight, random) {
  const count = weight.length
  const mean = weight.reduce((sum, each) => sum + each, 0) / count
  const keep = weight.map((each) => each / mean)
  const other = new Uint32Array(count)
  const small = []
  const large = []
  keep.forEach((each, index) => (each < 1 ? small : large).push(index))
  while (small.length > 0 && large.length > 0) {
    const [less, more] = [small.pop(), large.at(-1)]
    other[less] = more
    keep[more] -= 1 - keep[less]
    if (keep[more] < 1) small.push(large.pop())
  }
  for (const rest of [...small, ...large]) keep[rest] = 1
  return () => {
    const index = Math.floor(random() * count)
    return random() < keep[index] ? index : other[index]
  }
}

/** The bursts that continue, in a binary heap by the time of their next request. */
function burstHeap() {
  const heap = []

  function settle(burst, from) {
    let at = from
    for (let child = 2 * at + 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && heap[child + 1].time < heap[child].time) child++
      if (heap[child].time >= burst.time) break
      heap[at] = heap[child]
      at = child
    }
    heap[at] = burst
  }

  return {
    earliest: () => (heap.length === 0 ? Infinity : heap[0].time),
    source: () => heap[0].source,
    push(time, source, left, gap) {
      let at = heap.length
      for (let parent = (at - 1) >> 1; at > 0 && heap[parent].time > time; parent = (at - 1) >> 1) {
        heap[at] = heap[parent]
        at = parent
      }
      heap[at] = { time, source, left, gap }
    },
    /** Removes the earliest request. Its burst goes on after a gap, or ends. */
    advance(gapAfter) {
      const first = heap[0]
      first.left--
      first.time += gapAfter(first.gap)
      if (first.left > 0) return settle(first, 0)
      const last = heap.pop()
      if (last !== first) settle(last, 0)
    },
  }
}
