/** The middle of what was measured. */
export function median(samples) {
  return quantile(samples, 0.5)
}

/** Half the distance between the quartiles; of fewer than five samples, between the least and the largest. */
export function spread(samples) {
  return samples.length < 5
    ? (Math.max(...samples) - Math.min(...samples)) / 2
    : (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2
}

export function summary(samples) {
  return { median: median(samples), spread: spread(samples) }
}

/** Ratios of what was measured in the same round. */
export function ratios(of, over) {
  return of.map((each, round) => each / over[round])
}

function quantile(samples, share) {
  const sorted = samples.toSorted((a, b) => a - b)
  const at = (sorted.length - 1) * share
  const low = sorted[Math.floor(at)]
  return low + (sorted[Math.ceil(at)] - low) * (at - Math.floor(at))
}
