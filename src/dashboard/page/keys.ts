// Looks up a key and resets it.
import type { KeyAnswer, KeyState } from '../state.ts'
import { element, figure, keyName, make, makeHead, makeRow, showText } from './elements.ts'

const limiterInput = element('limiter') as HTMLInputElement
const keyInput = element('key') as HTMLInputElement
const confirmation = element('confirm') as HTMLDialogElement

/** The last key that was looked up. */
let found = { limiter: '', key: '' }

async function ask(path: string, named: { readonly limiter: string; readonly key: string }): Promise<KeyAnswer> {
  try {
    const headers = { 'X-Sluice-Key': encodeURIComponent(JSON.stringify(named)) }
    const response = await fetch(path, { method: 'POST', headers })
    if (response.status === 401) return { problem: 'You are no longer authorized. Reload the page.' }
    if (response.status === 403)
      return { problem: 'The server takes this page for one of another site. A proxy must not change the header Host.' }
    return (await response.json()) as KeyAnswer
  } catch {
    return { problem: 'The server did not answer as expected.' }
  }
}

export async function lookUp(limiter: string, key: string): Promise<void> {
  limiterInput.value = limiter
  keyInput.value = key
  const asked = { limiter, key }
  found = asked
  const answer = await ask('look-up', asked)
  if (found === asked) showAnswer(answer)
}

function showAnswer({ limits = [], isReset, problem }: KeyAnswer): void {
  const { limiter, key } = found
  showText('answer', problem ?? (limits.length > 0 ? 'Found.' : 'This key has no state.'))
  showText('found-title', limiter + ': ' + keyName(key))
  element('states').replaceChildren(...limits.map(stateRow))
  element('found').hidden = limits.length === 0
  element('reset').hidden = limits.length === 0 && isReset !== false
  element('answer').scrollIntoView({ block: 'nearest' })
}

function stateRow({ limit, allowed, used, remaining, retryAfter, resetAfter, slots }: KeyState): HTMLElement {
  const denied = retryAfter === null ? 'denied' : 'denied for ' + duration(retryAfter)
  const reset =
    resetAfter === null ? 'never' : resetAfter === 0 ? '–' : (slots ? 'expires in ' : 'in ') + duration(resetAfter)
  const state = make('td', allowed ? 'allowed' : denied, allowed ? '' : 'bad')
  const cells = [state, ...[count(used), count(remaining), reset].map((text) => make('td', text))]
  return makeRow('states', makeHead(limit), cells)
}

function count(value: number | null): string {
  return value === null ? '∞' : figure(value)
}

function duration(ms: number): string {
  if (ms < 60000) return figure(ms / 1000) + ' s'
  if (ms < 3600000) return figure(ms / 60000) + ' min'
  return ms < 86400000 ? figure(ms / 3600000) + ' h' : figure(ms / 86400000) + ' d'
}

async function reset(): Promise<void> {
  confirmation.close()
  const asked = found
  const { isReset, problem } = await ask('reset', asked)
  if (isReset !== true) return showText('answer', problem ?? 'The key was not reset.')
  await lookUp(asked.limiter, asked.key)
  showText('answer', 'The key was reset.')
  // The button with the focus may now be hidden.
  if (element('reset').hidden) element('answer').focus()
}

/** Offers the names of limiters. */
export function offerNames(names: Iterable<string>): void {
  const list = element('limiters')
  const wanted = [...new Set(names)].filter((name) => name !== '').toSorted()
  const shown = Array.from(list.children, (each) => (each as HTMLOptionElement).value)
  if (wanted.join('\n') === shown.join('\n')) return
  list.replaceChildren(...wanted.map((name) => new Option('', name)))
  if (limiterInput.value === '' && wanted.length > 0) limiterInput.value = wanted[0]
}

element('look-up').addEventListener('submit', (event) => {
  event.preventDefault()
  void lookUp(limiterInput.value, keyInput.value)
})
element('reset').addEventListener('click', () => {
  showText('confirm-text', 'All limits of ' + found.limiter + ' forget what ' + keyName(found.key) + ' has used.')
  confirmation.showModal()
})
element('cancel').addEventListener('click', () => confirmation.close())
element('confirm-reset').addEventListener('click', () => void reset())
