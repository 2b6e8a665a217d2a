import { Presets, SingleBar } from 'cli-progress'

/** A bar on a terminal; elsewhere a line as each experiment begins. */
export function progress(total) {
  if (!process.stderr.isTTY) {
    return { begin: (title) => console.error(`measuring: ${title}`), tick() {}, end() {} }
  }
  const bar = new SingleBar(
    {
      format: '{bar} {percentage}% | {eta_formatted} left | {title}',
      hideCursor: true,
      clearOnComplete: true,
      etaBuffer: 30,
    },
    Presets.shades_classic,
  )
  bar.start(total, 0, { title: '' })
  return { begin: (title) => bar.update({ title }), tick: () => bar.increment(), end: () => bar.stop() }
}
