import {
  type Attributes,
  type Histogram,
  type Meter,
  type Observable,
  type ObservableResult,
  trace,
} from '@opentelemetry/api'
import type { DecisionEvent } from '../../limiter/decision.ts'
import { observer } from '../../util/warn.ts'
import { BOUNDS, type Labels, Recorder } from '../recorder.ts'
import { refuse } from '../../util/validate.ts'
import {
  checkedSeries,
  type Collection,
  type Instrument,
  INSTRUMENTS,
  type MetricsOptions,
  WAIT_HELP,
} from '../instruments.ts'

export type { Collection, MetricsOptions }

/**
 * Creates the instruments of all limiters of the process on a meter: `rate_limiter.decisions` and others. Counting starts with
 * this call. A denied request sets `rate_limiter.name`, `rate_limiter.limit` and `rate_limiter.outcome` on its active span.
 * Keys of clients are never attributes.
 *
 * Throws `INVALID_OPTION` and `UNKNOWN_OPTION`.
 * @example
 * import { metrics } from '@opentelemetry/api'
 * import { instrument } from 'sluice/opentelemetry'
 *
 * instrument(metrics.getMeter('sluice'))
 */
export function instrument(meter: Meter, options: MetricsOptions = {}): Collection {
  if (typeof (meter as Partial<Meter> | null | undefined)?.createHistogram !== 'function')
    refuse('instrument', "a meter, such as instrument(metrics.getMeter('sluice'))", meter)
  // An error in a subscriber would end the process.
  const recorder = new Recorder(
    checkedSeries('instrument', options, 490),
    observer(decided, 'An instrument or a span of OpenTelemetry failed.'),
  )
  const ends = INSTRUMENTS.map((each) => observe(meter, each, recorder))
  const histogram = (name: string, description: string): Histogram =>
    meter.createHistogram(`rate_limiter.${name}.duration`, {
      unit: 's',
      description,
      advice: { explicitBucketBoundaries: BOUNDS.map((ms) => ms / 1000) },
    })
  const durations = histogram('decision', 'Time until a decision, for stores that do not answer at once.')
  const waits = histogram('wait', WAIT_HELP)
  function decided(event: DecisionEvent): void {
    const { limiter, duration, waited } = event
    if (duration > 0) durations.record(duration / 1000, attributesOf({ limiter: recorder.nameOf(limiter) }))
    if (waited > 0) waits.record(waited / 1000, attributesOf({ limiter: recorder.nameOf(limiter) }))
    if (!event.decision.allowed) describeDenial(event)
  }
  return {
    close() {
      for (const end of ends) end()
      recorder.close()
    },
  }
}

function describeDenial({ limiter, decision: { binding } }: DecisionEvent): void {
  const labels = { limiter, limit: binding?.limit.name ?? '', outcome: 'denied' }
  trace.getActiveSpan()?.setAttributes(attributesOf(labels))
}

/** Creates an instrument that reads the counts when it is collected. Returns a function that removes its callback. */
function observe(meter: Meter, instrument: Instrument, recorder: Recorder): () => void {
  const observable = observableOf(meter, instrument)
  function report(result: ObservableResult): void {
    for (const { labels, value } of instrument.samples(recorder)) result.observe(value, attributesOf(labels))
  }
  observable.addCallback(report)
  return () => observable.removeCallback(report)
}

function observableOf(meter: Meter, { name, kind, unit, help: description }: Instrument): Observable {
  const fullName = `rate_limiter.${name}`
  if (kind === 'total') return meter.createObservableCounter(fullName, { unit, description })
  if (kind === 'sum') return meter.createObservableUpDownCounter(fullName, { unit, description })
  return meter.createObservableGauge(fullName, { unit, description })
}

/** Names the attribute of each label. The names are similar to the semantic conventions for rate limiting in ASP.NET Core. */
function attributesOf(labels: Labels): Attributes {
  const nameOf = (label: string): string => `rate_limiter.${label === 'limiter' ? 'name' : label}`
  return Object.fromEntries(Object.entries(labels).map(([label, value]) => [nameOf(label), value]))
}
