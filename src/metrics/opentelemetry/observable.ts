import type { Attributes, Meter, Observable, ObservableResult } from '@opentelemetry/api'
import type { Instrument, Labels } from '../instruments.ts'
import type { Recorder } from '../recorder.ts'

/** Labels as attributes, in the manner of the semantic conventions for rate limiting in ASP.NET Core. */
const ATTRIBUTES: Labels = {
  limiter: 'rate_limiter.name',
  limit: 'rate_limiter.limit',
  outcome: 'rate_limiter.outcome',
  mode: 'rate_limiter.mode',
}

/** Creates an instrument that reads the counts when it is collected. Returns a function that ends it. */
export function observe(meter: Meter, instrument: Instrument, recorder: Recorder): () => void {
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

export function attributesOf(labels: Labels): Attributes {
  return Object.fromEntries(Object.entries(labels).map(([label, value]) => [ATTRIBUTES[label]!, value]))
}
