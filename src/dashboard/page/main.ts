// Asks the server for the state every two seconds, and shows it.
import { lookUp, offerNames } from './keys.ts'
import { BUCKETS, type RatedSeries, SPAN, type State } from '../state.ts'
import { element, figure, setText, showText, timeOf } from './elements.ts'
import { countedBuckets, limitsOf, nameOf, plottedBuckets } from './model.ts'
import { createPlot, draw } from './plot.ts'
import { showFleet } from './processes.ts'
import { showLimits, showMinutes, showStates, showTop } from './tables.ts'

/** Milliseconds between two requests, and milliseconds until a request has failed. */
const EVERY = 2000
const PATIENCE = 10000
/** Milliseconds between two announcements to a screen reader. */
const ANNOUNCE = 10000

const chosen = element('chosen') as HTMLSelectElement
const plot = createPlot()
plot.setAttribute('role', 'img')
element('plot').append(plot)

let latest: State | undefined
let announcedAt = -Infinity

/** Asks for the state. A page in the background does not ask. */
async function poll(): Promise<void> {
  if (!document.hidden) await ask()
  setTimeout(() => void poll(), EVERY)
}

async function ask(): Promise<void> {
  const state = await fetchState()
  if (state === undefined)
    return showConnection('lost', 'Connection lost. The page shows what came before. Trying again…')
  latest = state
  show(state)
}

async function fetchState(): Promise<State | undefined> {
  try {
    const response = await fetch('state', { signal: AbortSignal.timeout(PATIENCE) })
    return response.ok ? ((await response.json()) as State) : undefined
  } catch {
    return undefined
  }
}

/** Looks up a key of the list. This moves the focus out of the list, so that the list can change again. */
async function lookUpFromList(limiter: string, key: string): Promise<void> {
  await lookUp(limiter, key)
  element('answer').focus()
}

function showConnection(state: 'live' | 'problem' | 'lost', text: string): void {
  element('connection').dataset.state = state
  showText('connection', text)
  document.title = (state === 'live' ? '' : text.split('.')[0] + ' – ') + 'Rate limits'
}

function show(state: State): void {
  const ids = ['now-allowed', 'now-denied', 'now-shadow']
  ids.forEach((id, kind) => showText(id, figure(state.series[0].rates[kind])))
  showTop(state.denied, (limiter, key) => void lookUpFromList(limiter, key))
  showFleet(state)
  showLimits(state)
  showChoices(state)
  offerNames([...state.names, ...limitsOf(state).map(({ limiter }) => limiter)])
  showChosen(state)
  showSince(state)
  showDenying(state)
  // The page shows "Live" only if there is no problem.
  const problem = showStates(state)
  showConnection(problem === '' ? 'live' : 'problem', problem === '' ? 'Live' : problem)
}

/** Shows the time span of plots and tables. */
function showSince(state: State): void {
  const isFull = countedBuckets(state) === BUCKETS
  showText('plot-title', isFull ? 'Ten minutes' : 'Since the start')
  const began = state.processes.length > 1 ? 'The first dashboard' : 'The dashboard'
  showText('since', began + ' started at ' + timeOf(state.since, state) + '. It has no figures of the time before.')
  element('since').hidden = isFull
  const seconds = plottedBuckets(state) * SPAN
  showText(
    'plot-start',
    Math.floor(seconds / 60) + ' min ' + (seconds % 60 === 0 ? '' : (seconds % 60) + ' s ') + 'ago',
  )
}

function choicesOf(state: State): RatedSeries[] {
  return [state.series[0], ...limitsOf(state)]
}

function showChoices(state: State): void {
  const names = choicesOf(state).map(nameOf)
  const shown = Array.from(chosen.options, (each) => each.text)
  if (JSON.stringify(shown) === JSON.stringify(names)) return
  const before = chosen.value
  chosen.replaceChildren(...names.map((name) => new Option(name, name)))
  if (names.includes(before)) chosen.value = before
}

function showChosen(state: State): void {
  const series = choicesOf(state).find((each) => nameOf(each) === chosen.value)
  if (series === undefined) return
  const top = draw(plot, series, state)
  plot.setAttribute('aria-label', nameOf(series) + ': requests per second over time. The table below has the figures.')
  ;[top, top / 2, 0].forEach((value, i) => setText(element('plot-axis').children[i], figure(value) + ' / s'))
  showMinutes(series, state)
}

/**
 * Shows which limits deny now. A hidden text reports this to screen readers at most every ten seconds. The text has no figures, because they
 * would be as old as the text.
 */
function showDenying(state: State): void {
  const denying = limitsOf(state).filter(({ rates }) => rates[1] > 0)
  const names = denying.map(nameOf).join(', ')
  showText('denying', names === '' ? 'No limit denies requests now.' : 'Denying now: ' + names)
  if (performance.now() - announcedAt < ANNOUNCE) return
  const heard = names === '' ? '' : 'Limits that deny requests: ' + names
  if (element('announcement').textContent === heard) return
  showText('announcement', heard)
  announcedAt = performance.now()
}

chosen.addEventListener('change', () => latest && showChosen(latest))
document.addEventListener('visibilitychange', () => document.hidden || void ask())
void poll()
