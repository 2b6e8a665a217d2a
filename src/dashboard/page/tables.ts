// The tables of limits, minutes and keys, and the lists of stores and rules.
import { type DeniedKey, type RatedSeries, SPAN, type State } from '../state.ts'
import { element, figure, keyName, make, makeHead, makeRow, setText, timeOf } from './elements.ts'
import { countedBuckets, limitsOf, nameOf, sum, total } from './model.ts'
import { createPlot, draw } from './plot.ts'

interface Row {
  readonly row: HTMLElement
  readonly words: HTMLElement
  readonly cells: readonly HTMLElement[]
  readonly plot: SVGSVGElement
}

const rows = new Map<string, Row>()

export function showLimits(state: State): void {
  const list = limitsOf(state)
  const body = element('limits')
  element('no-limits').hidden = list.length > 0
  list.forEach((series, i) => {
    const { row } = showLimit(series, state)
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null)
  })
  const names = new Set(list.map(nameOf))
  for (const [name, { row }] of rows) {
    if (names.has(name)) continue
    row.remove()
    rows.delete(name)
  }
}

function showLimit(series: RatedSeries, state: State): Row {
  const row = rows.get(nameOf(series)) ?? createRow(series)
  rows.set(nameOf(series), row)
  setText(row.words, series.words)
  const admitted = total(series, 0)
  ;[0, 1, 2].forEach((kind) => setText(row.cells[kind], figure(series.rates[kind])))
  setText(row.cells[3], admitted === 0 ? '–' : Math.round((100 * total(series, 3)) / admitted) + ' %')
  row.cells[1].className = series.rates[1] > 0 ? 'bad' : ''
  draw(row.plot, series, state)
  return row
}

function createRow(series: RatedSeries): Row {
  const head = makeHead(series.limiter === '' ? nameOf(series) : series.limit)
  const words = make('span', '', 'detail')
  head.append(words)
  if (series.limiter !== '') head.append(make('span', series.limiter, 'detail'))
  const plot = createPlot()
  plot.classList.add('spark')
  // Screen readers use the figures beside the plot and the table of minutes. They have the same content.
  plot.setAttribute('aria-hidden', 'true')
  head.append(plot)
  const cells = Array.from({ length: 4 }, () => make('td'))
  return { row: makeRow('limits', head, cells), words, cells, plot }
}

const MINUTE = 60 / SPAN

/** Shows a row for each minute since the start, at most ten rows, the newest first. */
export function showMinutes(series: RatedSeries, state: State): void {
  const list = Array.from({ length: Math.ceil(countedBuckets(state) / MINUTE) }, (_, minute) => {
    const name = minute === 0 ? 'the last' : minute + ' to ' + (minute + 1) + ' min ago'
    const counts = [0, 1, 2].map((kind) => sum(series, kind, minute * MINUTE, (minute + 1) * MINUTE))
    const cells = counts.map((count) => make('td', figure(count)))
    return makeRow('minutes', makeHead(name), cells)
  })
  element('minutes').replaceChildren(...list)
}

export function showTop(keys: readonly DeniedKey[], lookUp: (limiter: string, key: string) => void): void {
  // The list does not change while it has the focus. A change would take the focus away.
  if (element('top').contains(document.activeElement)) return
  element('top-table').hidden = keys.length === 0
  element('no-top').hidden = keys.length > 0
  element('top').replaceChildren(...keys.map((denied) => topRow(denied, lookUp)))
}

function topRow(
  { key, limiter, limit, count, error }: DeniedKey,
  lookUp: (limiter: string, key: string) => void,
): HTMLElement {
  const button = make('button', 'Look up')
  button.setAttribute('aria-label', 'Look up ' + keyName(key))
  button.addEventListener('click', () => lookUp(limiter, key))
  const action = make('td')
  action.append(button)
  const least = error > 0 ? figure(count - error) + ' to ' : ''
  const cells = [make('td', limiter + ' / ' + limit), make('td', least + figure(count)), action]
  return makeRow('top', makeHead(keyName(key)), cells)
}

/** Shows the states, with problems first. Returns the problems in a few words, or an empty text if there are none. */
export function showStates(state: State): string {
  const { stores, rules, fleet } = state
  const all = state.processes.filter(({ isLost }) => !isLost).length
  element('no-state').hidden = stores.length + rules.length > 0
  element('stores').replaceChildren(...stores.map((each) => storeItem(each, state, all)))
  element('rules').replaceChildren(...rules.map((each) => rulesItem(each, state, all)))
  const lost = stores.filter((each) => each.state !== 'healthy')
  const wrong = rules.filter(({ problem }) => problem !== '')
  showProblems([
    ...lost.map((each) => outageText(each, state, all)),
    ...wrong.map((each) => ['Rules: ' + each.problem + partOf(each, all)]),
    ...(fleet.problem === '' ? [] : [unknownText(state)]),
  ])
  if (lost.length > 0) return lost.length === 1 ? 'Outage: ' + lost[0].name : 'Outage: ' + lost.length + ' stores'
  if (wrong.length > 0) return 'Problem with rules'
  return fleet.problem === '' ? '' : 'Other processes are not known'
}

const EFFECTS = { healthy: 'answers', slow: 'answers too late', away: 'does not answer' }

/** Returns a text with the number of processes that share a state. The text is empty if all processes share it. */
function partOf({ processes }: { readonly processes: number }, all: number): string {
  return processes === all ? '' : ' (' + processes + ' of ' + all + ' processes)'
}

function outageText(store: State['stores'][number], state: State, all: number): string[] {
  const effect = 'Until it answers in time, limits decide without it.'
  return [
    'Outage: ' + store.name + ' ' + EFFECTS[store.state] + '.' + partOf(store, all),
    store.reason === '' ? '' : 'Cause: ' + store.reason,
    'Since ' + timeOf(store.since, state) + '. ' + effect,
  ]
}

function unknownText({ fleet }: State): string[] {
  return [
    'Other processes are not known: ' + fleet.place + ' does not answer this page.',
    'Cause: ' + fleet.problem,
    'The page shows this process, and for 45 seconds what the others wrote before.',
  ]
}

/** Shows each problem: a first sentence and more lines. The same problems are not reported twice. */
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

function storeItem(store: State['stores'][number], state: State, all: number): HTMLElement {
  const item = make('li', store.name + ': ')
  const known = store.since === 0 ? 'no outage seen' : EFFECTS[store.state] + ', since ' + timeOf(store.since, state)
  item.append(make('span', known + partOf(store, all), store.state === 'healthy' ? '' : 'bad'))
  if (store.reason !== '') item.append(make('p', store.reason, 'quiet'))
  return item
}

function rulesItem(rules: State['rules'][number], state: State, all: number): HTMLElement {
  const { version, policies, loadedAt, problem } = rules
  const counted = policies === 1 ? '1 policy' : policies + ' policies'
  const since = 'current since ' + timeOf(loadedAt, state) + partOf(rules, all)
  const item = make('li', 'rules: version ' + version + ', ' + counted + ', ' + since)
  if (problem !== '') item.append(make('p', problem, 'bad'))
  return item
}
