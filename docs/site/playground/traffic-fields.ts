import { h, type VNode } from 'vue'
import { type Drawing, drawStrip } from './draw-strip.ts'
import { describedBy, labelled, valueIn } from './limit-fields.ts'
import { LONGEST_TEXT, parseTimes, timesText } from './paste.ts'
import { durationOf, messageOf, timeText } from './text.ts'
import { MOST_REQUESTS, presets, type Target, type Traffic, validSpan, withSpan } from './traffic.ts'

/** What the user is writing, before it is valid traffic. */
export interface Draft {
  /** The text of the list of times. */
  text: string
  wrong: string | undefined
  /** A length of the time line that is not valid, as it was written. */
  span: string | undefined
  readonly drawing: Drawing
}

/** Renders everything that chooses the traffic. */
export function trafficFields(traffic: Traffic, target: Target, draft: Draft, set: (traffic: Traffic) => void): VNode {
  const change = (changed: Traffic): void => {
    draft.span = undefined
    set(changed)
  }
  const count = traffic.times.length
  return h('div', { class: 'traffic' }, [
    h('div', { class: 'presets', role: 'group', 'aria-label': 'Presets' }, [
      ...Object.entries(presets).map(([title, make]) =>
        h('button', { type: 'button', onClick: () => change(make(target)) }, title),
      ),
      h('button', { type: 'button', onClick: () => change({ ...traffic, times: [] }) }, 'Clear'),
    ]),
    h('p', { class: 'hint' }, 'Draw: drag over the strip, or use the arrow keys.'),
    drawStrip(traffic, draft.drawing, change),
    axis(traffic.span),
    h('div', { class: 'fields' }, [
      spanField(traffic, draft, change),
      h('p', { class: 'count' }, count >= MOST_REQUESTS ? `${count} requests, the most` : `${count} requests`),
    ]),
    pasteFields(traffic, draft, change),
  ])
}

/** Renders the times below a time line. */
export function axis(span: number): VNode {
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => h('span', timeText(part * span)))
  return h('div', { class: 'axis', 'aria-hidden': 'true' }, marks)
}

function spanField(traffic: Traffic, draft: Draft, change: (traffic: Traffic) => void): VNode {
  const label = 'length of the time line'
  const onChange = (event: Event): void => {
    const span = durationOf(valueIn(event))
    if (span !== undefined && validSpan(span) === span) change(withSpan(traffic, span))
    else draft.span = valueIn(event)
  }
  const error =
    draft.span === undefined
      ? undefined
      : `${label}: expected a duration from '1s' to '366d', got ${JSON.stringify(draft.span)}`
  const value = draft.span ?? timeText(traffic.span)
  const attributes = { ...describedBy('span', error), id: 'span', value, maxlength: 16, autocomplete: 'off', onChange }
  return labelled('span', label, error, [h('input', attributes)])
}

function pasteFields(traffic: Traffic, draft: Draft, change: (traffic: Traffic) => void): VNode {
  const use = (): void => {
    try {
      change(parseTimes(draft.text))
      draft.wrong = undefined
    } catch (error) {
      draft.wrong = messageOf(error)
    }
  }
  const attributes = {
    id: 'times',
    rows: 3,
    value: draft.text,
    maxlength: LONGEST_TEXT,
    placeholder: '0 0.5 500ms 2s 1m, or dates such as 2026-01-31T12:00:00Z',
    spellcheck: false,
    ...describedBy('times', draft.wrong),
    onInput: (event: Event) => (draft.text = valueIn(event)),
  }
  return h('details', { class: 'paste' }, [
    h('summary', 'Paste a list of times'),
    labelled('times', 'times of requests', draft.wrong, [h('textarea', attributes)]),
    h('div', { class: 'presets' }, [
      h('button', { type: 'button', onClick: use }, 'Use these times'),
      h('button', { type: 'button', onClick: () => (draft.text = timesText(traffic.times)) }, 'Show the current times'),
    ]),
  ])
}
