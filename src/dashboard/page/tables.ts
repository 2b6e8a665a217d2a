// The tables of limits, minutes and keys, and the lists of stores and rules. Each text is set as text, never as HTML.
import {
  all,
  countedSeconds,
  type DeniedKey,
  type Message,
  nameOf,
  now,
  rate,
  type RulesState,
  type Series,
  type StoreState,
  sum,
  total,
  words,
} from './model.ts'
import { createPlot, draw } from './plot.ts'

interface Row {
  readonly name: string
  readonly row: HTMLElement
  readonly words: HTMLElement
  readonly cells: readonly HTMLElement[]
  readonly plot: SVGSVGElement
  drawnAt: number
}

export function element(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (found === null) throw new Error('The page has no ' + id)
  return found
}

/** Creates an element with a text. */
export function make(tag: string, text = '', name = ''): HTMLElement {
  const made = document.createElement(tag)
  made.textContent = text
  if (name !== '') made.className = name
  return made
}

/**
 * A key for people. Control characters, and those that change the direction of text, are written as JSON writes them: they would change
 * how the text beside the key is shown.
 */
export function shownKey(key: string): string {
  if (key === '') return '(no key)'
  const escaped = (each: string): string => '\\u' + each.charCodeAt(0).toString(16).padStart(4, '0')
  // oxlint-disable-next-line no-control-regex
  return key.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, escaped)
}

/** Creates the cell that names a row. */
export function makeHead(text: string): HTMLElement {
  const head = make('th', text)
  head.setAttribute('scope', 'row')
  return head
}

/** Creates a cell with the label that a phone shows above it. */
export function makeCell(label: string, text = '', name = ''): HTMLElement {
  const cell = make('td', text, name)
  cell.dataset.label = label
  return cell
}

export function figure(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 })
}

/** Sets a text unless it is the same, so that a screen reader reports changes only. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text
}

const rows = new Map<number, Row>()

/** The limits by their names. */
export function limits(): Series[] {
  const list = [...all.values()].filter(({ id }) => id !== 0)
  return list.toSorted((a, b) => nameOf(a).localeCompare(nameOf(b)))
}

export function showLimits(): void {
  const list = limits()
  const body = element('limits')
  element('no-limits').hidden = list.length > 0
  list.forEach((series, i) => {
    const { row } = showLimit(series)
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null)
  })
  for (const [id, { row }] of rows) {
    if (all.has(id)) continue
    row.remove()
    rows.delete(id)
  }
}

function showLimit(series: Series): Row {
  const row = rowOf(series)
  setText(row.words, words[series.id] ?? '')
  const admitted = total(series, 0)
  ;[0, 1, 2].forEach((kind) => setText(row.cells[kind], figure(rate(series, kind))))
  setText(row.cells[3], admitted === 0 ? '–' : Math.round((100 * total(series, 3)) / admitted) + ' %')
  row.cells[1].className = rate(series, 1) > 0 ? 'bad' : ''
  if (row.drawnAt !== series.second) draw(row.plot, series, 5)
  row.drawnAt = series.second
  return row
}

function rowOf(series: Series): Row {
  const known = rows.get(series.id)
  if (known !== undefined && known.name === nameOf(series)) return known
  known?.row.remove()
  const made = createRow(series)
  rows.set(series.id, made)
  return made
}

function createRow(series: Series): Row {
  const row = make('tr')
  const head = makeHead(series.limiter === '' ? nameOf(series) : series.limit)
  const what = make('span', '', 'detail')
  head.append(what)
  if (series.limiter !== '') head.append(make('span', series.limiter, 'detail'))
  const plot = createPlot()
  plot.classList.add('spark')
  // The figures beside it and the table of minutes have the same content.
  plot.setAttribute('aria-hidden', 'true')
  head.append(plot)
  const cells = ['Allowed', 'Denied', 'Shadow', 'Near'].map((label) => makeCell(label))
  row.append(head, ...cells)
  return { name: nameOf(series), row, words: what, cells, plot, drawnAt: 0 }
}

/** Shows a row for each minute since the start, at most ten, the newest first. */
export function showMinutes(series: Series): void {
  const list = Array.from({ length: Math.ceil(countedSeconds() / 60) }, (_, minute) => {
    const row = make('tr')
    const to = series.second - minute * 60
    const name = minute === 0 ? 'the last' : minute + ' to ' + (minute + 1) + ' min ago'
    row.append(makeHead(name), ...[0, 1, 2].map((kind) => make('td', figure(sum(series, kind, to - 59, to)))))
    return row
  })
  element('minutes').replaceChildren(...list)
}

export function showTop({ top }: Message, lookUp: (limiter: string, key: string) => void): void {
  // The list does not change while the keyboard is in it: that would take the focus away.
  if (top === undefined || element('top').contains(document.activeElement)) return
  element('top-table').hidden = top.keys.length === 0
  element('no-top').hidden = top.keys.length > 0
  element('top').replaceChildren(...top.keys.map((denied) => topRow(denied, lookUp)))
}

function topRow(
  { key, limiter, limit, count, error }: DeniedKey,
  lookUp: (limiter: string, key: string) => void,
): HTMLElement {
  const row = make('tr')
  const button = make('button', 'Look up')
  button.setAttribute('aria-label', 'Look up ' + shownKey(key))
  button.addEventListener('click', () => lookUp(limiter, key))
  const action = makeCell('Action')
  action.append(button)
  const least = error > 0 ? figure(count - error) + ' to ' : ''
  const cells = [makeCell('Limit', limiter + ' / ' + limit), makeCell('Denied', least + figure(count)), action]
  row.append(makeHead(shownKey(key)), ...cells)
  return row
}

/**
 * Shows the states, and first what does not work. Returns that in a few words, nothing if all is well, and undefined if the message
 * has no states.
 */
export function showStates({ stores, rules }: Message): string | undefined {
  if (stores === undefined || rules === undefined) return undefined
  element('no-state').hidden = stores.length + rules.length > 0
  element('stores').replaceChildren(...stores.map(storeItem))
  element('rules').replaceChildren(...rules.map(rulesItem))
  const lost = stores.filter(({ state }) => state !== 'healthy')
  const wrong = rules.filter(({ problem }) => problem !== '')
  const problems = [...lost.map(outageText), ...wrong.map(({ problem }) => ['Rules: ' + problem])]
  showProblems(problems)
  if (lost.length > 0) return lost.length === 1 ? 'Outage: ' + lost[0].name : 'Outage: ' + lost.length + ' stores'
  return wrong.length > 0 ? 'Problem with rules' : ''
}

const EFFECTS = { healthy: 'answers', slow: 'answers too late', away: 'does not answer' }

function outageText({ name, state, reason, since = 0 }: StoreState): string[] {
  const effect = 'Until it answers in time, limits decide without it.'
  return [
    'Outage: ' + name + ' ' + EFFECTS[state] + '.',
    reason === '' ? '' : 'Cause: ' + reason,
    'Since ' + timeOf(since) + '. ' + effect,
  ]
}

/** Shows each problem as a first sentence and more lines. The same problems are not reported twice. */
function showProblems(problems: readonly (readonly string[])[]): void {
  const box = element('problems')
  const text = JSON.stringify(problems)
  if (box.dataset.shown === text) return
  box.dataset.shown = text
  box.replaceChildren(
    ...problems.map(([first, ...more]) => {
      const each = make('div', '', 'problem')
      each.append(make('strong', first), ...more.filter((line) => line !== '').map((line) => make('p', line)))
      return each
    }),
  )
}

function storeItem({ name, state, reason, since }: StoreState): HTMLElement {
  const item = make('li', name + ': ')
  const known = EFFECTS[state] + ', since ' + timeOf(since ?? 0)
  item.append(make('span', since === undefined ? 'no outage seen' : known, state === 'healthy' ? '' : 'bad'))
  if (reason !== '') item.append(make('p', reason, 'quiet'))
  return item
}

function rulesItem({ version, policies, loadedAt, problem }: RulesState): HTMLElement {
  const counted = policies === 1 ? '1 policy' : policies + ' policies'
  const item = make('li', 'rules: version ' + version + ', ' + counted + ', current since ' + timeOf(loadedAt))
  if (problem !== '') item.append(make('p', problem, 'bad'))
  return item
}

/** The time of day, with the date if it is another day. */
export function timeOf(ms: number): string {
  const date = new Date(ms)
  const isToday = date.toDateString() === new Date(now).toDateString()
  return isToday ? date.toLocaleTimeString() : date.toLocaleString()
}
