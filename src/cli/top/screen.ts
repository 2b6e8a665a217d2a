import { emitKeypressEvents } from 'node:readline'
import { promises } from 'node:timers'
import { charactersOf, type Outcome } from '../print.ts'

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'
const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
const CLEAR_BELOW = '\u001b[J'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export interface Page {
  readonly title: string
  /** Returns lines of at most `columns` characters. */
  lines(columns: number): readonly string[]
}

/**
 * Shows pages on the second screen of the terminal until the user quits, with `q`, Escape, Ctrl-C, SIGINT, SIGTERM or SIGHUP. In every case, the
 * first screen and the cursor are shown again.
 * @param interval milliseconds between two pages. When the size of the terminal changes, a page is shown at once
 */
export async function live(interval: number, refresh: () => Promise<Page>): Promise<Outcome> {
  const { stdin: input, stdout: output } = process
  let isQuit = false
  let waiting = new AbortController()
  const redraw = (): void => waiting.abort()
  const quit = (): void => {
    isQuit = true
    redraw()
  }
  const pressed = (_text: string | undefined, key: { name?: string; ctrl?: boolean }): void => {
    if (key.name === 'q' || key.name === 'escape' || (key.ctrl === true && key.name === 'c')) quit()
  }
  emitKeypressEvents(input)
  input.setRawMode(true).on('keypress', pressed).resume()
  for (const signal of SIGNALS) process.on(signal, quit)
  output.on('resize', redraw).write(ENTER)
  try {
    while (!isQuit) {
      const { title, lines } = await refresh()
      // The size is 0 if the terminal does not know it.
      const [columns, height] = [output.columns || 80, output.rows || 24]
      const head = cut(`sluice top – ${new Date().toLocaleTimeString('en-GB')} – ${title} – q quits`, columns)
      const shown = [head, '', ...lines(columns).slice(0, Math.max(1, height - 3))]
      output.write(`${HOME}${shown.map((line) => `${line}${CLEAR_LINE}`).join('\n')}${CLEAR_BELOW}`)
      waiting = new AbortController()
      if (!isQuit) await promises.setTimeout(interval, undefined, { signal: waiting.signal }).catch(() => undefined)
    }
  } finally {
    input.off('keypress', pressed).setRawMode(false).pause()
    for (const signal of SIGNALS) process.off(signal, quit)
    output.off('resize', redraw).write(LEAVE)
  }
  return { text: '' }
}

export function cut(line: string, width: number): string {
  const characters = charactersOf(line.trimEnd())
  return characters.length <= width ? characters.join('') : `${characters.slice(0, width - 1).join('')}…`
}
