// Connects to the server, and shows each message.
import { lookUp, offerNames } from './keys.ts'
import { all, countedSeconds, type Message, nameOf, plottedSeconds, rate, receive, SECONDS, since } from './model.ts'
import { createPlot, draw } from './plot.ts'
import { element, figure, limits, setText, showLimits, showMinutes, showStates, showTop, timeOf } from './tables.ts'

/** Milliseconds before the page connects again after the server has refused it. */
const RETRY = 5000
/** Milliseconds between two announcements to a screen reader. */
const ANNOUNCE = 10000

const chosen = element('chosen') as HTMLSelectElement
const plot = createPlot()
plot.setAttribute('role', 'img')
element('plot').append(plot)

let names: readonly string[] = []
/** What does not work now; nothing if all is well. */
let problem = ''
let isDue = false
let drawnAt = -1
let announcedAt = -Infinity

function connect(): void {
  const source = new EventSource('events')
  source.addEventListener('message', ({ data }: MessageEvent<string>) => {
    const message = JSON.parse(data) as Message
    receive(message)
    names = message.names ?? names
    showTop(message, (limiter, key) => void lookUpFromList(limiter, key))
    problem = showStates(message) ?? problem
    // The page is live, and says so only if all is well.
    showConnection(problem === '' ? 'live' : 'problem', problem === '' ? 'Live' : problem)
    schedule()
  })
  source.addEventListener('error', () => {
    showConnection('lost', 'Connection lost. The page shows what came before. Trying again…')
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY)
  })
}

/** The focus leaves the list, so that the list changes again. */
async function lookUpFromList(limiter: string, key: string): Promise<void> {
  await lookUp(limiter, key)
  element('answer').focus()
}

function showConnection(state: 'live' | 'problem' | 'lost', text: string): void {
  element('connection').dataset.state = state
  setText(element('connection'), text)
  document.title = (state === 'live' ? '' : text.split('.')[0] + ' – ') + 'Rate limits'
}

/** Draws in the next frame. A page in the background has none, so it draws nothing. */
function schedule(): void {
  if (isDue) return
  isDue = true
  requestAnimationFrame(() => {
    isDue = false
    show()
  })
}

function show(): void {
  const everything = all.get(0)
  if (everything === undefined) return
  const ids = ['now-allowed', 'now-denied', 'now-shadow']
  ids.forEach((id, kind) => setText(element(id), figure(rate(everything, kind))))
  showLimits()
  showChoices()
  offerNames([...names, ...limits().map(({ limiter }) => limiter)])
  showChosen()
  showSince()
  showDenying()
}

/** Shows the time that plots and tables are about. */
function showSince(): void {
  const isFull = countedSeconds() === SECONDS
  setText(element('plot-title'), isFull ? 'Ten minutes' : 'Since the start')
  setText(element('since'), 'The dashboard started at ' + timeOf(since) + '. It has no figures of the time before.')
  element('since').hidden = isFull
  const seconds = plottedSeconds()
  setText(
    element('plot-start'),
    Math.floor(seconds / 60) + ' min ' + (seconds % 60 === 0 ? '' : (seconds % 60) + ' s ') + 'ago',
  )
}

function showChoices(): void {
  const list = [...all.values()].filter(({ id }) => id === 0).concat(limits())
  const shown = Array.from(chosen.options, (each) => each.value + each.text).join('\n')
  if (shown === list.map((each) => each.id + nameOf(each)).join('\n')) return
  const before = chosen.value
  chosen.replaceChildren(...list.map((each) => new Option(nameOf(each), String(each.id))))
  if (list.some(({ id }) => String(id) === before)) chosen.value = before
}

/** Draws the chosen series once a second. */
function showChosen(): void {
  const series = all.get(Number(chosen.value))
  if (series === undefined || series.second === drawnAt) return
  drawnAt = series.second
  const top = draw(plot, series, 2)
  plot.setAttribute('aria-label', nameOf(series) + ': requests per second over time. The table below has the figures.')
  ;[top, top / 2, 0].forEach((value, i) => setText(element('plot-axis').children[i], figure(value) + ' / s'))
  showMinutes(series)
}

/**
 * Shows which limits deny now. A screen reader hears of it at most every ten seconds, from a text that is not shown and has no figures:
 * a figure would be as old as the text.
 */
function showDenying(): void {
  const denying = limits().filter((each) => rate(each, 1) > 0)
  const names = denying.map(nameOf).join(', ')
  setText(element('denying'), names === '' ? 'No limit denies requests now.' : 'Denying now: ' + names)
  if (performance.now() - announcedAt < ANNOUNCE) return
  const heard = names === '' ? '' : 'Limits that deny requests: ' + names
  if (element('announcement').textContent === heard) return
  setText(element('announcement'), heard)
  announcedAt = performance.now()
}

chosen.addEventListener('change', () => {
  drawnAt = -1
  showChosen()
})
connect()
