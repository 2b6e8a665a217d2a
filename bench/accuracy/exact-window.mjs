/**
 * Counts the requests of each source in the last window, exactly: an entry made at `e` counts while `now < e + window`.
 * It is the definition of a sliding log, and knows nothing of the package.
 * @param {number} sources
 * @param {number} window in microseconds
 */
export function exactWindow(sources, window) {
  const counts = new Uint32Array(sources)
  let times = new Float64Array(2 ** 16)
  let owners = new Uint32Array(2 ** 16)
  let [head, length] = [0, 0]

  function grow() {
    const at = (i) => (head + i) & (times.length - 1)
    const [olderTimes, olderOwners] = [times, owners]
    const ordered = Float64Array.from({ length: 2 * olderTimes.length }, (_, i) => (i < length ? olderTimes[at(i)] : 0))
    owners = Uint32Array.from({ length: 2 * olderOwners.length }, (_, i) => (i < length ? olderOwners[at(i)] : 0))
    times = ordered
    head = 0
  }

  return {
    /** How many entries of a source count now. Times never decrease. */
    count(source, now) {
      for (; length > 0 && times[head] + window <= now; length--) {
        counts[owners[head]]--
        head = (head + 1) & (times.length - 1)
      }
      return counts[source]
    },
    add(source, now) {
      if (length === times.length) grow()
      const tail = (head + length) & (times.length - 1)
      times[tail] = now
      owners[tail] = source
      length++
      counts[source]++
    },
  }
}
