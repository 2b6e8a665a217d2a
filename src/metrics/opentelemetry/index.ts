import { type Meter, trace } from '@opentelemetry/api'
import type { DecisionEvent } from '../../limiter/decision.ts'
import { observer } from '../../util/warn.ts'
import { BOUNDS, Recorder } from '../recorder.ts'
import { checkedSeries, type Collection, INSTRUMENTS, type MetricsOptions } from '../instruments.ts'
import { attributesOf, observe } from './observable.ts'

export type { Collection, MetricsOptions }

/**
 * Creates the instruments of all limiters of the process on a meter: `rate_limiter.decisions` and others. They are counted from
 * now on. A denied request sets `rate_limiter.name`, `rate_limiter.limit` and `rate_limiter.outcome` on its active span.
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
  // Node ends the process for an error of a subscriber.
  const recorder = new Recorder(
    checkedSeries('instrument', options, 600),
    observer(decided, 'An instrument or a span of OpenTelemetry failed.'),
  )
  const ends = INSTRUMENTS.map((each) => observe(meter, each, recorder))
  const durations = meter.createHistogram('rate_limiter.decision.duration', {
    unit: 's',
    description: 'Time until a decision, for stores that do not answer at once.',
    advice: { explicitBucketBoundaries: BOUNDS.map((ms) => ms / 1000) },
  })
  function decided(event: DecisionEvent): void {
    const { limiter, duration } = event
    if (duration > 0) durations.record(duration / 1000, attributesOf({ limiter: recorder.nameOf(limiter) }))
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
