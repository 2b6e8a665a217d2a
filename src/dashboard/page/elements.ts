// Elements of the page, and what they show. All texts are set as text, never as HTML.
import { showInvisible } from '../../util/invisible.ts'
import type { State } from '../state.ts'

export function element(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (found === null) throw new Error('The page has no ' + id)
  return found
}

export function make(tag: string, text = '', name = ''): HTMLElement {
  const made = document.createElement(tag)
  made.textContent = showInvisible(text)
  if (name !== '') made.className = name
  return made
}

/** Returns a key for display. */
export function keyName(key: string): string {
  return key === '' ? '(no key)' : showInvisible(key)
}

/** Creates the head cell of a row. */
export function makeHead(text: string): HTMLElement {
  const head = make('th', text)
  head.setAttribute('scope', 'row')
  return head
}

/** Creates a row for the body of a table, which has this id. On a phone, the header of its column is shown above each cell. */
export function makeRow(body: string, head: HTMLElement, cells: readonly HTMLElement[], name = ''): HTMLElement {
  const row = make('tr', '', name)
  row.append(head, ...cells)
  const headers = element(body).parentElement!.querySelectorAll('thead th')
  cells.forEach((cell, i) => (cell.dataset.label = headers[i + 1].textContent!))
  return row
}

export function figure(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 })
}

/** Sets a text if it is different, so that a screen reader only reports changes. */
export function setText(target: Element, text: string): void {
  const next = showInvisible(text)
  if (target.textContent !== next) target.textContent = next
}

export function showText(id: string, text: string): void {
  setText(element(id), text)
}

/** The time of day, with the date if it is another day. */
export function timeOf(ms: number, { now }: State): string {
  const date = new Date(ms)
  const isToday = date.toDateString() === new Date(now).toDateString()
  return isToday ? date.toLocaleTimeString() : date.toLocaleString()
}
