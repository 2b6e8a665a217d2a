/** Connects to the server, and shows each message. */
export const mainScript: string = String.raw`// @ts-check
import { lookUp, offerNames } from './keys.js'
import { all, nameOf, rate, receive } from './model.js'
import { createPlot, draw } from './plot.js'
import { element, figure, limits, setText, showLimits, showMinutes, showStates, showTop } from './tables.js'

/** Milliseconds before the page connects again after the server has refused it. */
const RETRY = 5000
/** Milliseconds between two announcements to a screen reader. */
const ANNOUNCE = 10000

const chosen = /** @type {HTMLSelectElement} */ (element('chosen'))
const plot = createPlot()
plot.setAttribute('role', 'img')
element('plot').append(plot)

/** @type {string[]} */
let names = []
let isDue = false
let drawnAt = -1
let announcedAt = -Infinity

function connect() {
  const source = new EventSource('events')
  source.onopen = () => showConnection('live', 'Live')
  source.onmessage = ({ data }) => {
    const message = /** @type {import('./model.js').Message} */ (JSON.parse(data))
    receive(message)
    names = message.names ?? names
    showTop(message, lookUpFromList)
    showStates(message)
    schedule()
  }
  source.onerror = () => {
    showConnection('lost', 'Connection lost. Trying again…')
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY)
  }
}

/** The focus leaves the list, so that the list changes again. @param {string} limiter @param {string} key */
async function lookUpFromList(limiter, key) {
  await lookUp(limiter, key)
  element('answer').focus()
}

/** @param {string} state @param {string} text */
function showConnection(state, text) {
  element('connection').dataset.state = state
  setText(element('connection'), text)
}

/** Draws in the next frame. A page in the background has none, so it draws nothing. */
function schedule() {
  if (isDue) return
  isDue = true
  requestAnimationFrame(() => {
    isDue = false
    show()
  })
}

function show() {
  const everything = all.get(0)
  if (everything === undefined) return
  const ids = ['now-allowed', 'now-denied', 'now-shadow']
  ids.forEach((id, kind) => setText(element(id), figure(rate(everything, kind))))
  showLimits()
  showChoices()
  offerNames([...names, ...limits().map(({ limiter }) => limiter)])
  showChosen()
  announce()
}

function showChoices() {
  const list = [...all.values()].filter(({ id }) => id === 0).concat(limits())
  const shown = Array.from(chosen.options, (each) => each.value + each.text).join('\n')
  if (shown === list.map((each) => each.id + nameOf(each)).join('\n')) return
  const before = chosen.value
  chosen.replaceChildren(...list.map((each) => new Option(nameOf(each), String(each.id))))
  if (list.some(({ id }) => String(id) === before)) chosen.value = before
}

/** Draws the chosen series once a second. */
function showChosen() {
  const series = all.get(Number(chosen.value))
  if (series === undefined || series.second === drawnAt) return
  drawnAt = series.second
  const top = draw(plot, series, 2)
  plot.setAttribute('aria-label', nameOf(series) + ': decisions per second over ten minutes. The table below has the figures.')
  setText(element('scale'), 'Top of the plot: ' + figure(top) + ' per second')
  showMinutes(series)
}

/** Reports what is denied now, at most every ten seconds. */
function announce() {
  if (performance.now() - announcedAt < ANNOUNCE) return
  const denying = limits().filter((each) => rate(each, 1) > 0)
  const text = denying.map((each) => nameOf(each) + ' denies ' + figure(rate(each, 1)) + ' per second').join('; ')
  if (element('announcement').textContent === text) return
  setText(element('announcement'), text)
  announcedAt = performance.now()
}

chosen.addEventListener('change', () => {
  drawnAt = -1
  showChosen()
})
connect()
`
