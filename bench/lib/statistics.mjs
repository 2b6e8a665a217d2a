/** The median of some samples. */
export function median(samples) {
  return quantile(samples, 0.5)
}

/** The median, and the spread: half the distance between the quartiles, or between the extremes of fewer than five samples. */
export function summary(samples) {
  const spread =
    samples.length < 5
      ? (Math.max(...samples) - Math.min(...samples)) / 2
      : (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2
  return { median: median(samples), spread }
}

/** Combines two figures of the same rounds; a round that lacks one of them is left out. */
export function byRound(some, others, combine) {
  return some.slice(0, others.length).map((each, round) => combine(each, others[round]))
}

/** The ratios of two figures, round by round. */
export function ratios(of, over) {
  return byRound(of, over, (a, b) => a / b)
}

function quantile(samples, share) {
  const sorted = samples.toSorted((a, b) => a - b)
  const at = (sorted.length - 1) * share
  const low = sorted[Math.floor(at)]
  return low + (sorted[Math.ceil(at)] - low) * (at - Math.floor(at))
}
