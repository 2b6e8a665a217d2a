// The table of processes: the process that answers, and the processes that share its store.
import type { ProcessState, State } from '../state.ts'
import { element, figure, make, makeHead, makeRow, showText, timeOf } from './elements.ts'

export function showFleet(state: State): void {
  const self = state.processes.find(({ id }) => id === state.self)
  if (self !== undefined) showText('self', 'answered by ' + nameOf(self) + ', since ' + timeOf(self.since, state))
  showText('fleet', fleetText(state))
  const order = state.processes.toSorted((a, b) => nameOf(a).localeCompare(nameOf(b)) || a.since - b.since)
  element('processes').replaceChildren(...order.map((each) => processRow(each, state)))
}

function nameOf({ host, pid }: ProcessState): string {
  return host + ', process ' + pid
}

function fleetText({ fleet: { place, isOn, unread, isCut }, processes }: State): string {
  if (!isOn) return 'This page shows one process: the option fleet is false.'
  if (place === '') return 'This page shows one process: no store that it has seen is shared by processes.'
  const count = processes.length === 1 ? 'One process' : processes.length + ' processes'
  const cut = isCut ? ' There are more than these 100, and their figures are missing.' : ''
  const foreign =
    unread === 0 ? '' : ' ' + unread + ' more cannot be read: another version of the package may have written them.'
  return count + ' with a dashboard on ' + place + '.' + cut + foreign
}

const STORES = { '': '–', healthy: 'answers', slow: 'too late', away: 'away' }

function processRow(each: ProcessState, state: State): HTMLElement {
  const { host, pid, since, age, isLost, memory, rates, store, rules, id } = each
  const head = makeHead(host)
  head.append(make('span', 'process ' + pid + ', since ' + timeOf(since, state), 'detail'))
  const written = id === state.self ? 'this page' : figure(Math.round(age / 1000)) + ' s ago'
  const counts = isLost ? ['–', '–'] : [figure(rates[0]), figure(rates[1])]
  const cells = [
    make('td', counts[0]),
    make('td', counts[1], rates[1] > 0 ? 'bad' : ''),
    make('td', STORES[store], store === 'slow' || store === 'away' ? 'bad' : ''),
    make('td', rules === '' ? '–' : 'v' + rules),
    make('td', Math.round(memory / 1e6) + ' MB'),
    make('td', written),
  ]
  return makeRow('processes', head, cells, isLost ? 'lost' : '')
}
